select a from test.x where b = -1 and c in (-1,-2) limit 5
select database(), schema(), user(), current_user, now() + interval 1 day
select distinctrow a from x
select a and b && c or d || e xor f from x
select a<>b, a!=b, a<=>b, a<=b, a>=b, a<<1, a>>1 from x
select @a:=5
select count( distinct a) from x
select t.`a`, t.* from x t
select 'a' as b
select "a" "b"
select 0x1f, x'1f', b'01', 0b01
select _utf8'c', _latin1 'd'
select 1.5, 1e5, .5, 12345678901234567890
select null is null, null
insert into x values (null, default, 1)
insert into x values (1, 'a'), (2, null)
insert into x values (1, a), (2, b)
select * from x where a in (1, b, 2)
select * from x where (a,b) = (1,2)
select * from x where a like 'b' escape '|'
select date '2020-01-01'
update x set a=1,b=2,c=3 where d=4
select if(1,2,3)
select f(1), g(1,2), h()
select case when a then 1 else 2 end from x
select - 1, + 1, -a from x
select (-1), (- 1, 2)
set @x = 5, names utf8
set session sql_mode='x'
kill 5
select \N
select a from x order by a asc, b desc limit 1,2
select {d '2020-01-01'}
select a % b, a ^ b, ~a, !a from x
create table if not exists zz9.zz (a int default 5, key (a), b int not null, c varchar(10) default null, d int null)
select left('a',1), right('b',2), mod(5,3), substring('a' from 1 for 2), trim(both 'x' from 'y'), extract(year from now()), position('a' in 'b'), char(1,2), convert('a', char), cast('1' as signed)
select date_add(now(), interval 1 day), date_sub(now(), interval -1 hour), adddate(a, 5), subdate(a, 5) from x
select a from x where a is not null and not null and b is null and c = null
select a from x where a not in (1,2) and b not like 'x' and not c
select case a when 1 then null else -1 end from x
select a = - 1, a > -1, a + -1, a * -1, a - -1, a in (-1), -1 from x
select max(a), min(b), sum(c), avg(d), count(*) from x group by 1 having count(*) > 5
select * from x x1 left join y as y1 on x1.a = y1.b and y1.c = 'z' where exists (select 1 from z)
select sql_no_cache * from x use index (a) where a between 5 and 6 for update
select sleep(0), rand(), version(), connection_id(), last_insert_id()
select current_date, current_date(), curdate(), current_timestamp(3), utc_timestamp(), localtime
select a from x union all select b from y union select 1
select row_number() over (partition by a order by b) from x
with c as (select 1) select * from c
select group_concat(a separator ',') from x
select concat('a', b, 'c'), ifnull(a, 0), coalesce(a, b, 1), nullif(a, 1) from x
insert into x (a) values (1) on duplicate key update a = values(a) + 1
insert ignore into x set a = 1, b = null
replace into x select * from y
delete from x where a = 1 order by b limit 1
show tables like 'x%'
show variables like 'x'
select @@sql_mode, @@global.sql_mode, @@session.sql_mode
select 'it''s', 'a' 'b'
select true and false
select status, name, date, type, value, text, user, host from x
select a div b, a mod b from x
select std(a), stddev(a), variance(a), substr(a,1), mid(a,1,2) from x
alter table nodb.t add column a int, drop column b
truncate table nodb.t
drop table if exists nodb.t
select ((1)), ((1,2)), (((a))) from x
select * from x where a in ((1)) and b in (select c from y where d in (1,2))
select 1 from dual where 1=1 and 'a' = "b"
select json_extract(a, '$.b') from x
select cast(a as char), cast(b as unsigned), convert(c using utf8) from x
select interval 1 month + a, a + interval '1:1' minute_second from x
select a from x where b regexp 'c' and d rlike 'e' and f sounds like 'g'
select * from x limit 5 offset 10
begin
start transaction
commit
rollback to savepoint a
set transaction isolation level read committed
lock tables nodb.x read
explain select * from x where a = 1
do 1
