-- Look-ups of a set of rows that lie far from each other in a large table.
--
-- Row number i of the set is i times a large odd number, modulo the table's rows: each hot row is in a page
-- of its own as long as there are pages.

require("common")

sysbench.cmdline.options = {
   rows = { "Rows of the table", 1000000 },
   hot = { "Rows of the set; all rows when it is as large as the table", 1000 },
}

function prepare_thread()
   statement = con:prepare("SELECT c FROM hot WHERE id = ?")
   id = statement:bind_create(sysbench.sql.type.INT)
   statement:bind_param(id)
end

function event()
   local i = sysbench.rand.uniform(0, sysbench.opt.hot - 1)
   id:set(1 + (i * 2654435761) % sysbench.opt.rows)
   statement:execute()
end
