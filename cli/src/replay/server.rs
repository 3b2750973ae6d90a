//! Sessions on MariaDB and MySQL servers for `frond_replay`.

use frond_replay::answer::{Answer, Column, Type, WARNINGS};
use frond_replay::run::{Servers, Target};
use mysql::consts::ColumnType;
use mysql::prelude::Queryable;
use mysql::{Error, Value};

use super::ReplayArgs;
use crate::connection::ConnectionArgs;
use crate::digest::live::connect::Server;
use crate::digest::live::stop::now;
use crate::out::{Failure, Outcome};

/// The privilege that an account needs besides.
const NEEDS: &str = "SELECT ON *.*";
/// The character set of values that are not text.
const BINARY: u16 = 63;

/// Settings on which results depend; a difference in them is reported first.
const SETTINGS: [&str; 7] = [
    "sql_mode",
    "character_set_server",
    "collation_server",
    "lower_case_table_names",
    "div_precision_increment",
    "group_concat_max_len",
    "max_allowed_packet",
];

/// Two servers, and how to come to them.
pub struct Pair {
    ways: [(ConnectionArgs, Option<u16>); 2],
    writes: bool,
    pub names: [String; 2],
    pub notes: Vec<String>,
}

impl Pair {
    /// Connects once to each server, so that a failure is reported before anything is read.
    pub fn of(args: &ReplayArgs) -> Outcome<Pair> {
        let ways = [
            args.way(&args.on).map_err(|e| Failure::Request(format!("--on: {e}")))?,
            args.way(&args.against).map_err(|e| Failure::Request(format!("--against: {e}")))?,
        ];
        let mut pair =
            Pair { ways, writes: args.writes, names: Default::default(), notes: Vec::new() };
        let mut sides = [pair.connect(0)?, pair.connect(1)?];
        pair.names = [sides[0].name.clone(), sides[1].name.clone()];
        for setting in SETTINGS {
            let sql = format!("SELECT @@global.{setting}");
            let [a, b] = &mut sides;
            let (a, b) = (a.value(&sql)?, b.value(&sql)?);
            if a != b {
                let say = |v: Option<String>| v.unwrap_or_else(|| "NULL".into());
                pair.notes.push(format!(
                    "{setting} is '{}' on and '{}' against: answers may differ for that.",
                    say(a),
                    say(b)
                ));
            }
        }
        Ok(pair)
    }

    fn connect(&self, side: usize) -> Outcome<Server> {
        let (way, port) = &self.ways[side];
        let mut server = Server::connect(way, *port, NEEDS)?;
        if !self.writes {
            server.run("SET SESSION TRANSACTION READ ONLY")?;
        }
        // Whatever the server's init_connect says: statement::duty reads statements so.
        server.run("SET character_set_client = utf8mb4")?;
        Ok(server)
    }
}

impl Servers for Pair {
    fn open(&self) -> Result<[Box<dyn Target>; 2], String> {
        let open = |side| -> Result<Box<dyn Target>, String> {
            let server = self.connect(side).map_err(|e| e.to_string())?;
            Ok(Box::new(Session { server }))
        };
        Ok([open(0)?, open(1)?])
    }
}

struct Session {
    server: Server,
}

impl Session {
    fn gone(&self, error: &Error) -> String {
        format!("{}: {error}", self.server.name)
    }

    /// An error of the statement is its answer; any other error ends the session.
    fn refused(&self, error: Error) -> Result<Answer, String> {
        match error {
            // The server ends or ended the connection.
            Error::MySqlError(e) if matches!(e.code, 1053 | 1927 | 2006 | 2013) => {
                Err(self.gone(&Error::MySqlError(e)))
            }
            Error::MySqlError(e) => Ok(Answer::failed(e.code, e.message)),
            other => Err(self.gone(&other)),
        }
    }

    fn answer(&mut self, sql: &str) -> Result<(Answer, u16), Error> {
        let mut answer = Answer::new();
        let begin = now();
        let mut result = self.server.client().query_iter(sql)?;
        let mut first = true;
        while let Some(set) = result.iter() {
            let columns = set.columns().as_ref().iter().map(column).collect::<Vec<_>>();
            if first {
                answer.columns = columns;
            } else if !columns.is_empty() {
                answer.next_result();
            }
            first = false;
            for row in set {
                let values = row?.unwrap_raw();
                let value = |v: Option<Value>| match v {
                    Some(Value::Bytes(bytes)) => Some(bytes),
                    _ => None,
                };
                answer.row(values.into_iter().map(value).collect());
            }
        }
        answer.nanos = begin.elapsed().as_nanos() as u64;
        answer.affected = result.affected_rows();
        let warnings = result.warnings();
        Ok((answer, warnings))
    }
}

impl Target for Session {
    fn run(&mut self, sql: &[u8]) -> Result<Answer, String> {
        // `statement::duty` lets only text through to here.
        let sql = String::from_utf8_lossy(sql);
        let (mut answer, warnings) = match self.answer(&sql) {
            Ok(found) => found,
            Err(error) => return self.refused(error),
        };
        if warnings > 0 {
            let codes = self
                .server
                .client()
                .query::<(String, u16, String), _>(format!("SHOW WARNINGS LIMIT {WARNINGS}"));
            answer.warnings =
                codes.map_err(|e| self.gone(&e))?.into_iter().map(|(_, code, _)| code).collect();
            answer.warnings.sort_unstable();
        }
        Ok(answer)
    }

    fn choose(&mut self, db: &[u8]) -> Result<Answer, String> {
        let name = String::from_utf8_lossy(db).replace('`', "``");
        self.run(format!("USE `{name}`").as_bytes())
    }
}

fn column(column: &mysql::Column) -> Column {
    let of = match column.column_type() {
        ColumnType::MYSQL_TYPE_FLOAT | ColumnType::MYSQL_TYPE_DOUBLE => Type::Float,
        ColumnType::MYSQL_TYPE_VAR_STRING
        | ColumnType::MYSQL_TYPE_STRING
        | ColumnType::MYSQL_TYPE_VARCHAR
        | ColumnType::MYSQL_TYPE_BLOB
        | ColumnType::MYSQL_TYPE_TINY_BLOB
        | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
        | ColumnType::MYSQL_TYPE_LONG_BLOB
            if column.character_set() != BINARY =>
        {
            Type::Text
        }
        _ => Type::Exact,
    };
    let field = (column.table_str().into_owned(), column.org_name_str().into_owned());
    Column { name: column.name_str().into_owned(), field, of }
}
