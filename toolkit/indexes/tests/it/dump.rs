//! The tables that result from a dump's statements.

use frond_indexes::dump::Hiding;
use frond_indexes::model::{KeyKind, Table};

use crate::{read, read_in};

fn keys(table: &Table) -> Vec<String> {
    let kind = |kind: KeyKind| match kind {
        KeyKind::Primary | KeyKind::Plain => "",
        KeyKind::Unique => "unique ",
        KeyKind::Fulltext => "fulltext ",
        KeyKind::Spatial => "spatial ",
        KeyKind::Vector => "vector ",
    };
    let keys = table.keys.iter().map(|key| {
        let parts: Vec<String> = key
            .parts
            .iter()
            .map(|p| {
                let prefix = p.prefix.map_or(String::new(), |n| format!("({n})"));
                format!("{}{prefix}{}", p.column, if p.descending { " desc" } else { "" })
            })
            .collect();
        let hidden = if key.ignored { " ignored" } else { "" };
        format!("{}{}({}){hidden}", kind(key.kind), key.name, parts.join(","))
    });
    keys.collect()
}

const MARIADB_DUMP: &str = r"/*M!999999\- enable the sandbox mode */ 
-- MariaDB dump 10.19  Distrib 10.11.6-MariaDB, for debian-linux-gnu (x86_64)
--
-- Host: localhost    Database: it's
-- ------------------------------------------------------
-- Server version	10.11.6-MariaDB

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `it's` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;

USE `it's`;
DROP TABLE IF EXISTS `or``ders`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
CREATE TABLE `or``ders` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT COMMENT 'the (number), KEY `no` (`no`)',
  `state` enum('new','it''s;done','a\'b') NOT NULL DEFAULT 'new' CHECK (`state` <> 'x)'),
  `total` decimal(10,2) GENERATED ALWAYS AS (`net` * (1 + `vat`)) STORED,
  `key` varchar(255) DEFAULT ');',
  PRIMARY KEY (`id`,`state`),
  UNIQUE KEY `u` (`key`(10) DESC,`state`) USING BTREE COMMENT 'x, KEY `no` (`no`)',
  KEY `k;1` (`total`) IGNORED,
  FULLTEXT KEY `f` (`key`),
  CONSTRAINT `fk` FOREIGN KEY (`total`) REFERENCES `other`.`p` (`i`) ON DELETE SET NULL ON UPDATE CASCADE,
  CONSTRAINT `c` CHECK (`id` > 0 and (`total` > 1))
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COMMENT='ENGINE=MyISAM'
 PARTITION BY LIST COLUMNS(`state`)
(PARTITION `p0` VALUES IN ('new') ENGINE = InnoDB,
 PARTITION `p1` VALUES IN ('a\'b') ENGINE = InnoDB);
LOCK TABLES `or``ders` WRITE;
/*!40000 ALTER TABLE `or``ders` DISABLE KEYS */;
INSERT INTO `or``ders` VALUES (1,'new',1.5,'); CREATE TABLE x (a int, key (a));\'\n-- '),(2,'a\\',2,'/* ');
/*!40000 ALTER TABLE `or``ders` ENABLE KEYS */;
UNLOCK TABLES;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN
  SET @a = 'x;'; CREATE TEMPORARY TABLE hidden (a int, key (a)); 
END */;;
DELIMITER ;
CREATE TABLE `parted` (
  `a` int(11) DEFAULT NULL,
  KEY `a` (`a`)
) ENGINE=Frond DEFAULT CHARSET=utf8mb4
/*!50100 PARTITION BY HASH (`a`)
PARTITIONS 4 */;
/*!50001 CREATE VIEW `v` AS SELECT
 1 AS `a` */;
-- Dump completed on 2026-01-01  0:00:00
";

fn check_mariadb_dump(tables: &[Table]) {
    assert_eq!(tables.len(), 2, "{tables:#?}");
    let t = &tables[0];
    assert_eq!((t.db.as_str(), t.name.as_str(), t.engine.as_str()), ("it's", "or`ders", "InnoDB"));
    assert_eq!(
        keys(t),
        [
            "PRIMARY(id,state)",
            "unique u(key(10) desc,state)",
            "k;1(total) ignored",
            "fulltext f(key)"
        ]
    );
    assert_eq!(t.auto_increment.as_deref(), Some("id"));
    let fk = &t.foreign[0];
    assert_eq!(fk.name.as_deref(), Some("fk"));
    assert_eq!((fk.parent_db.as_str(), fk.parent.as_str()), ("other", "p"));
    assert_eq!(fk.actions, "ON DELETE SET NULL ON UPDATE CASCADE");
    assert_eq!((tables[1].engine.as_str(), keys(&tables[1])), ("Frond", vec!["a(a)".into()]));
}

#[test]
fn what_the_servers_own_dump_writes_is_read_however_it_is_cut_into_pieces() {
    for size in [1, 2, 3, 7, 64, 4096, 1 << 20] {
        let dump = read_in(MARIADB_DUMP.as_bytes(), size).unwrap();
        assert_eq!(dump.problems, [""; 0], "{size}");
        assert_eq!(dump.hiding, Hiding::Ignored);
        check_mariadb_dump(&dump.tables);
    }
}

#[test]
fn a_dump_that_was_cut_anywhere_says_so() {
    let end = MARIADB_DUMP.find("-- Dump completed").unwrap();
    for cut in 1..end {
        if !MARIADB_DUMP.is_char_boundary(cut) || cut < 80 {
            continue;
        }
        match read_in(&MARIADB_DUMP.as_bytes()[..cut], 512) {
            Ok(dump) => assert!(
                dump.problems.iter().any(|p| p.contains("was cut") || p.contains("not closed")),
                "{cut}: {:?}",
                dump.problems
            ),
            Err(what) => panic!("{cut}: {what}"),
        }
    }
}

#[test]
fn statements_by_hand_are_read_too() {
    let dump = read(
        "create table a (id serial, x int primary key, y int unique, z int key_block_size, w int references b(i));\n\
         # a comment; create table no (a int);\n\
         create table if not exists d.b (i int, j int, index (i), index (i, j), unique (i)) type=x;\n\
         create unique index n using btree on d.b (j desc) comment 'c';\n\
         alter table d.b add key m (i), add index o (j), drop key i_2, add constraint s unique (j, i), alter index o ignored;\n\
         alter table d.b add constraint f foreign key (i) references a (x), rename index m to mm;\n\
         create table \"ansi\" (\"a\" int, key \"k\" (\"a\"));\n\
         create table gone (a int); drop table if exists gone, other;\n\
         create table c like d.b;\n\
         drop index mm on c",
    );
    let by_name = |name: &str| dump.tables.iter().find(|t| t.name == name).unwrap();
    assert_eq!(keys(by_name("a")), ["unique id(id)", "PRIMARY(x)", "unique y(y)"]);
    assert_eq!(by_name("a").foreign[0].columns, ["w"]);
    let b = ["i(i)", "unique i_3(i)", "unique n(j desc)", "mm(i)", "o(j) ignored", "unique s(j,i)"];
    assert_eq!(keys(by_name("b")), b);
    assert_eq!(by_name("b").foreign[0].name.as_deref(), Some("f"));
    assert_eq!(keys(by_name("ansi")), ["k(a)"]);
    assert_eq!(keys(by_name("c")).len(), b.len() - 1);
    assert!(!dump.tables.iter().any(|t| t.name == "gone" || t.name == "no"));
}

#[test]
fn what_is_no_dump_is_refused() {
    let refused = |bytes: &[u8]| read_in(bytes, 100).unwrap_err();
    assert!(refused(b"").contains("empty"));
    assert!(refused(b"\x7fELF\0\0;create table t (a int);").contains("zero bytes"));
    assert!(refused(b"select 1;\n").contains("CREATE TABLE"));
    assert!(refused(b"\n\n").contains("CREATE TABLE"));
}

#[test]
fn versions_say_how_an_index_is_hidden() {
    for (version, wanted) in [
        ("10.6.1-MariaDB", Hiding::Ignored),
        ("11.8.2-MariaDB-log", Hiding::Ignored),
        ("10.5.20-MariaDB", Hiding::None),
        ("8.0.36", Hiding::Invisible),
        ("9.1.0", Hiding::Invisible),
        ("5.7.44-log", Hiding::None),
    ] {
        assert_eq!(Hiding::of_version(version), wanted, "{version}");
    }
}

/// Random bytes, and a dump with bytes changed: nothing panics, and time is bounded.
#[test]
fn no_bytes_make_it_panic() {
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize
    };
    for _ in 0..2000 {
        let mut bytes = MARIADB_DUMP.as_bytes().to_vec();
        for _ in 0..1 + random() % 20 {
            let at = random() % bytes.len();
            match random() % 3 {
                0 => bytes[at] = b"'`\"();,/*-#\\\n!"[random() % 14],
                1 => {
                    bytes.remove(at);
                }
                _ => bytes[at] = random() as u8,
            }
        }
        let _ = read_in(&bytes, 1 + random() % 300);
    }
    for filler in ["(", "/*!", "/*", "a ", "`", "'", ",", "create table t (a int, key (a", "\\"] {
        let begin = std::time::Instant::now();
        let _ = read_in(format!("create table t ({}", filler.repeat(300_000)).as_bytes(), 1 << 16);
        let _ = read_in(filler.repeat(300_000).as_bytes(), 1 << 16);
        assert!(begin.elapsed().as_secs() < 20, "{filler}");
    }
}
