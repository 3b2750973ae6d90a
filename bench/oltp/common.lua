-- Shared by the workloads of this folder: connections, and SQL that fails a run by name.
--
-- Each workload's table is made by bench/harness before the run; sysbench only runs events.

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   if prepare_thread ~= nil then
      prepare_thread()
   end
end

function thread_done()
   con:disconnect()
   if other ~= nil then
      other:disconnect()
   end
end

-- A deadlock or a lock that others hold too long ends the transaction, not the run: sysbench counts
-- the event as an ignored error and starts it again.
function sysbench.hooks.sql_error_ignorable(err)
   return err.sql_errno == 1213 or err.sql_errno == 1205 or err.sql_errno == 1020
end
