//! The packets that begin a connection, the server's greeting and the client's login; and the
//! later change of user.

use super::cursor::Cursor;
use super::words::capability as cap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Greeting {
    pub thread_id: u32,
    pub capabilities: u32,
}

/// User, database and capabilities of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Login<'a> {
    pub capabilities: u32,
    pub user: &'a [u8],
    pub db: &'a [u8],
    pub attributes: Vec<(&'a [u8], &'a [u8])>,
    /// The rest of the connection is encrypted; all other fields are unknown.
    pub tls: bool,
}

/// More attributes than these are not kept; clients send about eight.
const MOST_ATTRIBUTES: usize = 32;

/// The greeting of protocol version 10. `None`: these bytes are not one.
pub(super) fn greeting(payload: &[u8]) -> Option<Greeting> {
    let mut cursor = Cursor::new(payload.strip_prefix(&[10])?);
    let version = cursor.until_nul();
    let plausible = version.first().is_some_and(u8::is_ascii_digit)
        && version.len() < 128
        && version.iter().all(|b| (0x20..0x7f).contains(b));
    if !plausible {
        return None;
    }
    let thread_id = cursor.u32()?;
    let _scramble = cursor.bytes(9)?;
    let low = u32::from(cursor.u16()?);
    // Servers before 4.1 end here.
    let _charset_and_status = cursor.bytes(3).unwrap_or_default();
    let high = u32::from(cursor.u16().unwrap_or(0));
    let capabilities = high << 16 | low;
    Some(Greeting { thread_id, capabilities })
}

/// The client's answer to the greeting. `None`: these bytes are not one.
pub(super) fn login(payload: &[u8]) -> Option<Login<'_>> {
    let mut cursor = Cursor::new(payload);
    let capabilities = u32::from(cursor.u16()?);
    if capabilities & cap::PROTOCOL_41 == 0 {
        // Protocol 3.20: capabilities (2), largest packet (3), user.
        let _largest = cursor.bytes(3)?;
        let user = cursor.until_nul();
        return Some(Login { capabilities, user, ..Login::default() });
    }
    let capabilities = u32::from(cursor.u16()?) << 16 | capabilities;
    let _largest_and_charset = cursor.bytes(5)?;
    let reserved = cursor.bytes(19)?;
    let _mariadbs_own = cursor.u32()?;
    if reserved.iter().any(|b| *b != 0) {
        return None;
    }
    let mut login = Login { capabilities, ..Login::default() };
    if cursor.rest().is_empty() {
        login.tls = capabilities & cap::TLS != 0;
        return login.tls.then_some(login);
    }
    login.user = cursor.until_nul();
    if capabilities & cap::PLUGIN_AUTH_LENGTH != 0 {
        cursor.string()?;
    } else if capabilities & cap::SECURE_CONNECTION != 0 {
        let length = cursor.u8()?;
        cursor.bytes(usize::from(length))?;
    } else {
        cursor.until_nul();
    }
    if capabilities & cap::CONNECT_WITH_DB != 0 {
        login.db = cursor.until_nul();
    }
    if capabilities & cap::PLUGIN_AUTH != 0 {
        cursor.until_nul();
    }
    if capabilities & cap::CONNECT_ATTRIBUTES != 0 {
        attributes(&mut cursor, &mut login.attributes);
    }
    Some(login)
}

/// A change of user: user, reply, database, ... `None`: the packet is cut.
pub(super) fn change_user(payload: &[u8], capabilities: Option<u32>) -> Option<Login<'_>> {
    let mut cursor = Cursor::new(payload);
    let mut login = Login { user: cursor.until_nul(), ..Login::default() };
    // If the beginning of a connection was not captured, it is assumed to be modern.
    let all = cap::SECURE_CONNECTION | cap::PLUGIN_AUTH | cap::CONNECT_ATTRIBUTES;
    let capabilities = capabilities.unwrap_or(all);
    if capabilities & cap::SECURE_CONNECTION != 0 {
        let length = cursor.u8()?;
        cursor.bytes(usize::from(length))?;
    } else {
        cursor.until_nul();
    }
    login.db = cursor.until_nul();
    let _charset = cursor.u16();
    if capabilities & cap::PLUGIN_AUTH != 0 {
        cursor.until_nul();
    }
    if capabilities & cap::CONNECT_ATTRIBUTES != 0 {
        attributes(&mut cursor, &mut login.attributes);
    }
    Some(login)
}

/// Reads pairs of strings inside a string; an incomplete pair is left out.
fn attributes<'a>(cursor: &mut Cursor<'a>, into: &mut Vec<(&'a [u8], &'a [u8])>) {
    let Some(all) = cursor.length() else { return };
    let rest = cursor.rest();
    let mut pairs =
        Cursor::new(&rest[..rest.len().min(usize::try_from(all).unwrap_or(usize::MAX))]);
    while into.len() < MOST_ATTRIBUTES {
        let (Some(name), Some(value)) = (pairs.string(), pairs.string()) else { return };
        into.push((name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modern_greeting() -> Vec<u8> {
        let mut out = vec![10];
        out.extend(b"5.5.5-10.11.6-MariaDB\0");
        out.extend(42u32.to_le_bytes());
        out.extend(b"12345678\0");
        out.extend([0xfe, 0xf7, 33, 2, 0, 0xff, 0x81, 21, 0, 0, 0, 0, 0, 0]);
        out.extend(0x1du32.to_le_bytes());
        out.extend(b"123456789012\0mysql_native_password\0");
        out
    }

    fn modern_login() -> Vec<u8> {
        let caps = cap::PROTOCOL_41
            | cap::SECURE_CONNECTION
            | cap::CONNECT_WITH_DB
            | cap::PLUGIN_AUTH
            | cap::CONNECT_ATTRIBUTES;
        let mut out = caps.to_le_bytes().to_vec();
        out.extend([0, 0, 0, 1, 33]);
        out.extend([0; 19]);
        out.extend(7u32.to_le_bytes());
        out.extend(b"app\0\x03abcshop\0mysql_native_password\0");
        out.extend(b"\x12\x04_pid\x03123\x02os\x05Linux");
        out
    }

    #[test]
    fn greeting_and_login_of_mariadb_are_understood() {
        let got = greeting(&modern_greeting()).unwrap();
        assert_eq!(got.thread_id, 42);
        assert_eq!(got.capabilities, 0x81ff_f7fe);
        let bytes = modern_login();
        let login = login(&bytes).unwrap();
        assert_eq!((login.user, login.db), (&b"app"[..], &b"shop"[..]));
        assert_eq!(login.attributes, [(&b"_pid"[..], &b"123"[..]), (b"os", b"Linux")]);
        assert!(!login.tls);
    }

    #[test]
    fn a_request_for_tls_is_the_first_part_of_a_login() {
        let mut bytes = modern_login()[..32].to_vec();
        assert_eq!(login(&bytes), None);
        bytes[1] |= 8;
        assert!(login(&bytes).unwrap().tls);
    }

    #[test]
    fn cut_packets_are_refused_or_lack_their_end_and_never_panic() {
        let (server, client) = (modern_greeting(), modern_login());
        for length in 0..server.len() {
            let _ = greeting(&server[..length]);
        }
        for length in 0..client.len() {
            let _ = login(&client[..length]);
            let _ = change_user(&client[..length], None);
            let _ = change_user(&client[..length], Some(0));
        }
        assert_eq!(greeting(b"\x0aSSH-2.0\0aaaaaaaaaaaaaaaaaaaaa"), None);
    }

    #[test]
    fn a_change_of_user_names_user_and_database() {
        let login = change_user(b"bob\0\x02xxother\0\x21\0plugin\0", None).unwrap();
        assert_eq!((login.user, login.db), (&b"bob"[..], &b"other"[..]));
    }
}
