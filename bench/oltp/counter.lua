-- One row that all connections count up.

require("common")

function event()
   con:query("UPDATE counter SET n = n + 1 WHERE id = 1")
end
