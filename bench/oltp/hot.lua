-- Look-ups of a set of rows that lie far from each other in a large table, by primary key or through the index on `n`.
--
-- Row number i of the set is i times a large odd number, modulo the table's rows: each hot row is in a page
-- of its own as long as there are pages.

require("common")

sysbench.cmdline.options = {
   rows = { "Rows of the table", 1000000 },
   by = { "The column that is asked for: id or n", "id" },
   hot = { "Rows of the set; all rows when it is as large as the table", 1000 },
}

function prepare_thread()
   statement = con:prepare("SELECT c FROM hot WHERE " .. sysbench.opt.by .. " = ?")
   wanted = statement:bind_create(sysbench.sql.type.BIGINT)
   statement:bind_param(wanted)
   -- Below the number of rows, so that products are exact.
   step = 2654435761 % sysbench.opt.rows
end

function event()
   local i = sysbench.rand.uniform(0, sysbench.opt.hot - 1)
   local id = 1 + (i * step) % sysbench.opt.rows
   -- As bench/harness fills the table.
   wanted:set(sysbench.opt.by == "n" and id * 48271 % 2147483647 or id)
   if statement:execute().nrows ~= 1 then
      error("not one row for " .. id)
   end
end
