//! Names and texts in SQL, and names of files.

/// `name` quoted as an identifier.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// `value` quoted as a string.
pub fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', "''"))
}

/// The server's file name for a table: ASCII letters, digits and _ stay, the rest of ASCII becomes @ and four
/// hexadecimal digits. Other letters have codes from the server's tables. They are left as they are, so such a table is
/// not found by its file.
pub fn file_name(name: &str) -> String {
    let coded = |c: char| match c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii() {
        true => c.to_string(),
        false => format!("@{:04x}", c as u32),
    };
    name.chars().map(coded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_special_in_sql_is_quoted() {
        assert_eq!((quoted("a`b"), text(r"a'b\")), ("`a``b`".into(), r"'a''b\\'".into()));
        assert_eq!(file_name("my-shop"), "my@002dshop");
    }
}
