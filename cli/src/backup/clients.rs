//! The options that make a stock client connect as this program does.

use std::path::Path;
use std::process::Command;

use super::copy;
use crate::connection::ConnectionArgs;
use crate::out::{Failure, Outcome};

/// Adds the options. The caller adds those for option files, which must come first.
///
/// # Errors
/// The password's file cannot be read, or is standard input: this program has read that for its own connection.
pub fn connect(way: &ConnectionArgs, port: Option<u16>, client: &mut Command) -> Outcome<()> {
    for (name, value) in [
        ("user", way.user.clone()),
        ("host", way.host.clone()),
        ("socket", way.socket.as_ref().map(|path| path.display().to_string())),
        ("port", port.map(|port| port.to_string())),
    ] {
        client.args(value.map(|value| format!("--{name}={value}")));
    }
    if let Some(file) = &way.password_file {
        if file.as_os_str() == "-" {
            let program = client.get_program().to_string_lossy().into_owned();
            return Err(Failure::Request(format!(
                "--password-file: {program} needs the password, too: name a file, not standard input"
            )));
        }
        client.env("MYSQL_PWD", first_line(file)?);
    }
    Ok(())
}

/// The first line of a file: a password.
fn first_line(path: &Path) -> Outcome<String> {
    Ok(copy::text(path)?.lines().next().unwrap_or_default().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use frond_vfs::OpenHow;

    #[test]
    fn a_password_is_in_the_environment_and_not_among_the_arguments() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        copy::open(&path, OpenHow::CREATE).unwrap().write_all_at(b"secret\nmore", 0).unwrap();
        let way = ConnectionArgs {
            user: Some("me".into()),
            password_file: Some(path),
            ..ConnectionArgs::default()
        };
        let mut command = Command::new("mariadb");
        connect(&way, Some(7), &mut command).unwrap();
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, ["--user=me", "--port=7"]);
        let password = command.get_envs().find(|(name, _)| *name == "MYSQL_PWD");
        assert_eq!(password.and_then(|(_, value)| value), Some("secret".as_ref()));
        let way = ConnectionArgs { password_file: Some("-".into()), ..way };
        let refused = connect(&way, None, &mut Command::new("mariadb")).unwrap_err();
        assert!(refused.to_string().contains("mariadb needs the password, too"));
    }
}
