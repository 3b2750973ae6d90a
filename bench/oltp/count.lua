-- The rows of a whole table, counted.

require("common")

function event()
   con:query("SELECT COUNT(*) FROM sbtest1")
end
