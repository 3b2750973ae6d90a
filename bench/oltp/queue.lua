-- A queue table: an event inserts a row on the right, then takes the leftmost one that nobody holds.
--
-- The queue keeps its length, so that a slow consumer shows in the rate and not in the table's size.

require("common")

function event()
   con:query("INSERT INTO queue (payload) VALUES (REPEAT('x', 100))")
   con:query("BEGIN")
   local taken = con:query("SELECT id FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
   if taken.nrows > 0 then
      con:query("DELETE FROM queue WHERE id = " .. taken:fetch_row()[1])
   end
   con:query("COMMIT")
end
