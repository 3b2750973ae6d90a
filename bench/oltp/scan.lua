-- A whole table read by its primary key, with sums.

require("common")

function event()
   con:query("SELECT SUM(k), SUM(LENGTH(c)) FROM sbtest1 FORCE INDEX (PRIMARY) WHERE pad <> ''")
end
