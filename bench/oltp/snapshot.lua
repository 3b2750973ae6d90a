-- Updates of few rows while a transaction that began before them stays open: none of their versions may go.

require("common")

-- Rows, 1 to this.
local ROWS = 2000

function prepare_thread()
   if sysbench.tid == 0 then
      other = drv:connect()
      other:query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
      other:query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
      other:query("SELECT COUNT(*) FROM versions")
   end
end

function event()
   con:query("UPDATE versions SET n = n + 1 WHERE id = " .. sysbench.rand.uniform(1, ROWS))
end
