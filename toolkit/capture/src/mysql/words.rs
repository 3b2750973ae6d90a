//! The protocol's numbers: commands, capabilities, status bits.

/// The command of a client's packet: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    InitDb,
    Query,
    FieldList,
    ChangeUser,
    BinlogDump,
    Prepare,
    Execute,
    BulkExecute,
    LongData,
    Close,
    Reset,
    Fetch,
    Statistics,
    ResetConnection,
    /// Any other known command, by its number.
    Other(u8),
}

/// Names as servers log them, by number.
const NAMES: [&str; 32] = [
    "Sleep",
    "Quit",
    "Init DB",
    "Query",
    "Field List",
    "Create DB",
    "Drop DB",
    "Refresh",
    "Shutdown",
    "Statistics",
    "Processlist",
    "Connect",
    "Kill",
    "Debug",
    "Ping",
    "Time",
    "Delayed insert",
    "Change user",
    "Binlog Dump",
    "Table Dump",
    "Connect Out",
    "Register Slave",
    "Prepare",
    "Execute",
    "Long Data",
    "Close stmt",
    "Reset stmt",
    "Set option",
    "Fetch",
    "Daemon",
    "Binlog Dump GTID",
    "Reset connection",
];

/// MariaDB's command for many executions at once.
const BULK_EXECUTE: u8 = 0xfa;

impl Command {
    pub(super) fn from_byte(byte: u8) -> Option<Command> {
        Some(match byte {
            0x01 => Command::Quit,
            0x02 => Command::InitDb,
            0x03 => Command::Query,
            0x04 => Command::FieldList,
            0x09 => Command::Statistics,
            0x11 => Command::ChangeUser,
            0x12 | 0x13 | 0x1e => Command::BinlogDump,
            0x16 => Command::Prepare,
            0x17 => Command::Execute,
            0x18 => Command::LongData,
            0x19 => Command::Close,
            0x1a => Command::Reset,
            0x1c => Command::Fetch,
            0x1f => Command::ResetConnection,
            BULK_EXECUTE => Command::BulkExecute,
            // Servers refuse the commands that only they themselves use: Sleep, Connect, Time, ...
            0x05..=0x08 | 0x0a | 0x0c..=0x0e | 0x15 | 0x1b => Command::Other(byte),
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        let number = match self {
            Command::Quit => 0x01,
            Command::InitDb => 0x02,
            Command::Query => 0x03,
            Command::FieldList => 0x04,
            Command::Statistics => 0x09,
            Command::ChangeUser => 0x11,
            Command::BinlogDump => 0x12,
            Command::Prepare => 0x16,
            Command::Execute | Command::BulkExecute => 0x17,
            Command::LongData => 0x18,
            Command::Close => 0x19,
            Command::Reset => 0x1a,
            Command::Fetch => 0x1c,
            Command::ResetConnection => 0x1f,
            Command::Other(number) => number,
        };
        NAMES.get(usize::from(number)).copied().unwrap_or("Unknown")
    }

    /// The name that pt-query-digest gives the command in captured traffic: made from the
    /// protocol's constant.
    pub(super) fn compat_name(self) -> &'static str {
        match self {
            Command::InitDb => "Init_db",
            Command::FieldList => "Field_list",
            Command::ChangeUser => "Change_user",
            Command::BinlogDump => "Binlog_dump",
            Command::Fetch => "Stmt_fetch",
            Command::ResetConnection => "Reset_connection",
            Command::Other(0x05) => "Create_db",
            Command::Other(0x06) => "Drop_db",
            Command::Other(0x0a) => "Process_info",
            Command::Other(0x0c) => "Process_kill",
            Command::Other(0x15) => "Register_slave",
            Command::Other(0x1b) => "Set_option",
            other => other.name(),
        }
    }

    /// False for the commands that the server does not answer.
    pub(super) fn is_answered(self) -> bool {
        !matches!(self, Command::Quit | Command::LongData | Command::Close)
    }
}

/// Capabilities (the first 32 bits).
pub(super) mod capability {
    pub(crate) const MYSQL: u32 = 1;
    pub(crate) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(crate) const COMPRESS: u32 = 1 << 5;
    pub(crate) const PROTOCOL_41: u32 = 1 << 9;
    pub(crate) const TLS: u32 = 1 << 11;
    pub(crate) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(crate) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(crate) const CONNECT_ATTRIBUTES: u32 = 1 << 20;
    pub(crate) const PLUGIN_AUTH_LENGTH: u32 = 1 << 21;
    pub(crate) const DEPRECATE_EOF: u32 = 1 << 24;
    pub(crate) const COMPRESS_ZSTD: u32 = 1 << 26;
    pub(crate) const QUERY_ATTRIBUTES: u32 = 1 << 27;
}

/// Bits of a server's status word.
pub(super) mod status {
    pub(crate) const MORE_RESULTS: u16 = 0x0008;
    pub(crate) const NO_GOOD_INDEX_USED: u16 = 0x0010;
    pub(crate) const NO_INDEX_USED: u16 = 0x0020;
    pub(crate) const CURSOR_EXISTS: u16 = 0x0040;
}
