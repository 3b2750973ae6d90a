select a from b, c as d, e f join g on x left join `h`.`i` using (z)
select a from t1 where b in (select c from t22)
select a from b union all select c from b
insert into t (a,b) values (1,2)
insert into t select * from u union select * from v
insert ignore t1 values (1)
insert into t (a) values (1) on duplicate key update a=2
replace low_priority t1 values (1)
update low_priority ignore t set a=1
update t join u set x=1
update t set a=(select max(b) from c)
delete a,b from a join b join c
delete from a, b using a, b, c
truncate table db.t1
begin
start transaction
set autocommit=1
create table if not exists db.t1 (a int)
create temporary table t1 select * from u
create database if not exists d1
create view v1 as select * from a1 join b1
alter table `db`.`t1` engine=innodb
drop table if exists t1, u
rename table a.b1 to c.d2
lock tables `a b` write, c.d1 read local
unlock tables
call foo.bar(1, 2)
xa start 'x'
load data local infile 'x' replace into table `db`.`t` fields terminated by ','
administrator command: Init DB
use db
USE db
show full tables from x like 'y'
show session status like 'x'
show keys from t
show engine innodb status
show count(*) warnings
show create schema d
explain select * from t
with x as (select a from b) select e from f
select * from (select b, c from d) x
(select a from b) union (select c from d)
