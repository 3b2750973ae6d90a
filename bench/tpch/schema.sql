-- The eight tables of TPC-H: the primary keys, an index on each foreign key, and those on the two dates that reports ask for
-- first. {engine} is replaced.

CREATE TABLE region (
  r_regionkey INT NOT NULL PRIMARY KEY,
  r_name CHAR(25) NOT NULL,
  r_comment VARCHAR(152)
) ENGINE={engine} DEFAULT CHARSET=utf8mb4;

CREATE TABLE nation (
  n_nationkey INT NOT NULL PRIMARY KEY,
  n_name CHAR(25) NOT NULL,
  n_regionkey INT NOT NULL,
  n_comment VARCHAR(152),
  KEY (n_regionkey)
) ENGINE={engine} DEFAULT CHARSET=utf8mb4;

CREATE TABLE supplier (
  s_suppkey INT NOT NULL PRIMARY KEY,
  s_name CHAR(25) NOT NULL,
  s_address VARCHAR(40) NOT NULL,
  s_nationkey INT NOT NULL,
  s_phone CHAR(15) NOT NULL,
  s_acctbal DECIMAL(15,2) NOT NULL,
  s_comment VARCHAR(101) NOT NULL,
  KEY (s_nationkey)
) ENGINE={engine} DEFAULT CHARSET=utf8mb4;

CREATE TABLE part (
  p_partkey INT NOT NULL PRIMARY KEY,
  p_name VARCHAR(55) NOT NULL,
  p_mfgr CHAR(25) NOT NULL,
  p_brand CHAR(10) NOT NULL,
  p_type VARCHAR(25) NOT NULL,
  p_size INT NOT NULL,
  p_container CHAR(10) NOT NULL,
  p_retailprice DECIMAL(15,2) NOT NULL,
  p_comment VARCHAR(23) NOT NULL
) ENGINE={engine} DEFAULT CHARSET=utf8mb4;

CREATE TABLE partsupp (
  ps_partkey INT NOT NULL,
  ps_suppkey INT NOT NULL,
  ps_availqty INT NOT NULL,
  ps_supplycost DECIMAL(15,2) NOT NULL,
  ps_comment VARCHAR(199) NOT NULL,
  PRIMARY KEY (ps_partkey, ps_suppkey),
  KEY (ps_suppkey)
) ENGINE={engine} DEFAULT CHARSET=utf8mb4;

CREATE TABLE customer (
  c_custkey INT NOT NULL PRIMARY KEY,
  c_name VARCHAR(25) NOT NULL,
  c_address VARCHAR(40) NOT NULL,
  c_nationkey INT NOT NULL,
  c_phone CHAR(15) NOT NULL,
  c_acctbal DECIMAL(15,2) NOT NULL,
  c_mktsegment CHAR(10) NOT NULL,
  c_comment VARCHAR(117) NOT NULL,
  KEY (c_nationkey)
) ENGINE={engine} DEFAULT CHARSET=utf8mb4;

CREATE TABLE orders (
  o_orderkey INT NOT NULL PRIMARY KEY,
  o_custkey INT NOT NULL,
  o_orderstatus CHAR(1) NOT NULL,
  o_totalprice DECIMAL(15,2) NOT NULL,
  o_orderdate DATE NOT NULL,
  o_orderpriority CHAR(15) NOT NULL,
  o_clerk CHAR(15) NOT NULL,
  o_shippriority INT NOT NULL,
  o_comment VARCHAR(79) NOT NULL,
  KEY (o_custkey),
  KEY (o_orderdate)
) ENGINE={engine} DEFAULT CHARSET=utf8mb4;

CREATE TABLE lineitem (
  l_orderkey INT NOT NULL,
  l_partkey INT NOT NULL,
  l_suppkey INT NOT NULL,
  l_linenumber INT NOT NULL,
  l_quantity DECIMAL(15,2) NOT NULL,
  l_extendedprice DECIMAL(15,2) NOT NULL,
  l_discount DECIMAL(15,2) NOT NULL,
  l_tax DECIMAL(15,2) NOT NULL,
  l_returnflag CHAR(1) NOT NULL,
  l_linestatus CHAR(1) NOT NULL,
  l_shipdate DATE NOT NULL,
  l_commitdate DATE NOT NULL,
  l_receiptdate DATE NOT NULL,
  l_shipinstruct CHAR(25) NOT NULL,
  l_shipmode CHAR(10) NOT NULL,
  l_comment VARCHAR(44) NOT NULL,
  PRIMARY KEY (l_orderkey, l_linenumber),
  KEY (l_partkey, l_suppkey),
  KEY (l_suppkey),
  KEY (l_shipdate)
) ENGINE={engine} DEFAULT CHARSET=utf8mb4;
