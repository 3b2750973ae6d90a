//! Every error points at its place and says what would be right.

use super::parse;

/// Asserts that the text is refused at `^` in `marked`, and that the message has `says` in it.
fn refused(text: &str, column: usize, says: &str) {
    let error = parse(text).expect_err(text);
    let shown = error.to_string();
    assert!(error.what().contains(says), "{text}: {shown}");
    assert_eq!(error.column(), column, "{text}: {shown}");
}

#[test]
fn errors_point_at_the_column() {
    refused("", 1, "an expression is expected");
    refused("quer_time > 5", 1, "did you mean 'Query_time'?");
    refused("db == shop", 7, "a string takes quotes: \"shop\"");
    refused("program == 'x'", 1, "attribute(\"program\")");
    refused("query_time > ", 14, "a value is expected");
    refused("query_time > '5'", 14, "a duration such as");
    refused("query_time > 5parsecs", 14, "no unit of time");
    refused("bytes_sent > 5XB", 14, "no unit of size");
    refused("rows_sent > 5ms", 13, "no unit of a count");
    refused("db > 'a'", 4, "only numbers and times can be less");
    refused("db == 5", 7, "a text in quotes is expected");
    refused("query_time =~ 'x'", 12, "only texts and tables");
    refused("db =~ '('", 7, "the pattern is wrong: unclosed group");
    refused("db =~ 5", 7, "a pattern in quotes");
    refused("db =~ '(a{1000}){1000}'", 7, "too large");
    refused("db like 'x%'", 4, "use =~");
    refused("db == 'x", 7, "no closing '");
    refused("db == 'x' & user == 'y'", 11, "use '&&'");
    refused("db == 'x' | user == 'y'", 11, "use '||'");
    refused("db == 'x' user == 'y'", 11, "'&&' or '||' is expected");
    refused("(db == 'x'", 1, "has no ')'");
    refused("db == 'x')", 10, "has no '('");
    refused("db in 'x'", 7, "a list in parentheses");
    refused("db in ('x' 'y')", 12, "',' or ')'");
    refused("kind == 'selct'", 9, "did you mean \"select\"?");
    refused("command == 'foo'", 12, "known are query, execute");
    refused("class == '12'", 10, "32 hexadecimal digits");
    refused("full_scan == 5", 14, "true or false is expected");
    refused("db", 1, "this is no condition");
    refused("5 == 5", 1, "neither side is a field");
    refused("start > 'gestern'", 9, "is no time");
    refused("query_time > bytes_sent", 14, "of different kinds");
    refused("db == 'x' && %", 14, "'%' cannot stand here");
    refused("query_time > 1e999", 14, "no attribute has values of this size");
    refused("db not 'x'", 8, "'in' is expected after 'not'");
    refused("known(5)", 7, "takes a field");
}

#[test]
fn the_caret_stands_under_the_place_whatever_is_before_it() {
    let error = parse("user == 'J\u{f6}rg' && quer_time > 5").unwrap_err();
    let shown = error.to_string();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines[1], "  user == 'J\u{f6}rg' && quer_time > 5");
    assert_eq!(lines[2], "                    ^^^^^^^^^");
    let error = parse("db == 'a' &&\n\tquer_time > 5").unwrap_err();
    let shown = error.to_string();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!((lines[1], lines[2]), ("   quer_time > 5", "   ^^^^^^^^^"));
    // Only the part of a long line around the place is shown.
    let text = format!("{} && quer_time > 5", vec!["db == 'a'"; 100].join(" && "));
    let shown = parse(&text).unwrap_err().to_string();
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[1].len() < 150);
    let caret = lines[2].find('^').unwrap();
    assert!(lines[1][caret..].starts_with("quer_time"), "{shown}");
}
