//! Equality with the tools whose dialects we imitate, run beside ours on the same statements.
//!
//! Without pt-query-digest (`apt-get install percona-toolkit`) these tests say so and pass.

use crate::client::Server;
use crate::programs::{bounded, has};
use crate::statements::{corpus, made, mutated, ordinary, text, Random};
use frond_sqltext::{distill, fingerprint, Dialect};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const TOOL: &str = "/usr/bin/pt-query-digest";

/// Loads the tool without running it, and answers records, each a length and bytes. If the tool
/// fails on a statement, the answer is `FAILED`.
const ANSWER: &str = r#"
    my ($tool, $what) = @ARGV;
    { local @ARGV; require $tool; }
    binmode STDIN; binmode STDOUT;
    my $rewriter = QueryRewriter->new(QueryParser => QueryParser->new());
    while ( read(STDIN, my $head, 4) == 4 ) {
        my $length = unpack 'V', $head;
        my $sql = '';
        read(STDIN, $sql, $length) if $length;
        my $answer = eval { $rewriter->$what($sql) };
        $answer = "\0FAILED" if $@;
        $answer = '' unless defined $answer;
        print pack('V', length $answer), $answer;
    }
"#;

const FAILED: &[u8] = b"\0FAILED";

/// The tool's answers, or nothing if it is not installed.
pub fn answers(what: &str, statements: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    if !Path::new(TOOL).exists() || !has("pt-query-digest") || !has("perl") {
        eprintln!("skipped: no {TOOL}");
        return None;
    }
    let version = Command::new(TOOL).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8_lossy(&version).trim().to_string();
    if !version.ends_with(" 3.2.1") {
        eprintln!("skipped: {version} instead of 3.2.1");
        return None;
    }
    let mut child = bounded("perl")
        .args(["-e", ANSWER, TOOL, what])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let records: Vec<u8> = statements
        .iter()
        .flat_map(|s| (s.len() as u32).to_le_bytes().into_iter().chain(s.iter().copied()))
        .collect();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(&records).unwrap());
        child.wait_with_output().unwrap().stdout
    });
    let mut found = Vec::new();
    let mut rest = output.as_slice();
    while let Some((head, tail)) = rest.split_first_chunk::<4>() {
        let (answer, tail) = tail.split_at(u32::from_le_bytes(*head) as usize);
        found.push(answer.to_vec());
        rest = tail;
    }
    assert_eq!(found.len(), statements.len(), "the tool stopped in between");
    Some(found)
}

/// Asserts that `ours` gives the tool's answer for each statement.
fn compare(what: &str, statements: &[Vec<u8>], ours: impl Fn(&[u8], &mut Vec<u8>)) {
    compare_most(what, statements, 0, ours);
}

/// The same, except for up to `allowed` statements.
fn compare_most(
    what: &str,
    statements: &[Vec<u8>],
    allowed: usize,
    ours: impl Fn(&[u8], &mut Vec<u8>),
) {
    let Some(answers) = answers(what, statements) else { return };
    let mut out = Vec::new();
    let mut wrong = Vec::new();
    for (sql, answer) in statements.iter().zip(&answers) {
        ours(sql, &mut out);
        if out != *answer && answer != FAILED {
            wrong.push((sql, answer, out.clone()));
        }
    }
    wrong.sort_by_key(|(sql, ..)| sql.len());
    if wrong.len() > allowed {
        let (sql, answer, out) = &wrong[0];
        panic!(
            "{} of {} differ; the shortest is\n{:?}\nthe tool: {:?}\nours:     {:?}",
            wrong.len(),
            statements.len(),
            String::from_utf8_lossy(sql),
            String::from_utf8_lossy(answer),
            String::from_utf8_lossy(out)
        );
    }
}

#[test]
fn fingerprints_of_real_statements_are_those_of_pt_query_digest() {
    compare("fingerprint", &corpus(), |sql, out| fingerprint(sql, Dialect::Ptqd32, out));
}

#[test]
fn fingerprints_of_made_statements_are_those_of_pt_query_digest() {
    let corpus = corpus();
    let mut random = Random::new(3);
    let mut statements: Vec<_> = (0..20_000).map(|_| made(&mut random)).collect();
    if !corpus.is_empty() {
        let mutants = (0..10_000).map(|_| {
            let base = random.below(corpus.len());
            mutated(&corpus[base], &mut random)
        });
        statements.extend(mutants.collect::<Vec<_>>());
    }
    statements.extend((0..20_000).map(|_| text(&mut random)));
    statements.extend((0..10_000).map(|_| ordinary(&mut random)));
    compare("fingerprint", &statements, |sql, out| fingerprint(sql, Dialect::Ptqd32, out));
}

#[test]
fn distilled_forms_of_real_statements_are_those_of_pt_query_digest() {
    compare("distill", &corpus(), distill);
}

#[test]
fn distilled_forms_of_common_statements_are_those_of_pt_query_digest() {
    let statements = include_str!("distill.sql").lines().map(|line| line.as_bytes().to_vec());
    compare("distill", &statements.collect::<Vec<_>>(), distill);
}

#[test]
fn distilled_forms_of_ordinary_statements_are_those_of_pt_query_digest() {
    let mut random = Random::new(5);
    let statements: Vec<_> = (0..20_000).map(|_| ordinary(&mut random)).collect();
    compare("distill", &statements, distill);
}

/// In text that is not SQL some words have two meanings at once; one in a thousand may differ.
#[test]
fn distilled_forms_of_nonsense_are_nearly_always_those_of_pt_query_digest() {
    let mut random = Random::new(6);
    let mut statements: Vec<_> = (0..10_000).map(|_| made(&mut random)).collect();
    statements.extend((0..10_000).map(|_| {
        let base = ordinary(&mut random);
        mutated(&base, &mut random)
    }));
    compare_most("distill", &statements, statements.len() / 1000, distill);
}

/// The digests of a server: a private one, or that of `FROND_SOCKET` (it needs
/// `--performance-schema`). Statements fail because tables are missing, but they still have
/// digests.
#[test]
fn digests_are_those_of_a_mariadb_server() {
    let place = tempfile::tempdir().unwrap();
    let given = std::env::var_os("FROND_SOCKET");
    if given.is_none() && !has("mariadbd") {
        eprintln!("skipped: no mariadbd");
        return;
    }
    let options = ["--performance-schema", "--performance-schema-digests-size=20000"];
    let own = given
        .is_none()
        .then(|| Server::start(place.path(), &options).unwrap_or_else(|e| panic!("{e}")));
    let socket =
        own.as_ref().map_or_else(|| given.unwrap_or_default(), |s| s.socket.clone().into());
    let client = |input: String| {
        let mut child = Command::new("mariadb")
            .args(["--no-defaults", "-uroot", "-N", "-f", "--socket"])
            .arg(&socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let table = "performance_schema.events_statements_summary_by_digest";
    // Texts that the client does not send, or that occur only in logs, have no digest in a server.
    let is_sent = |sql: &&str| {
        let word = sql.split(' ').next().unwrap_or_default();
        !["use", "administrator"].iter().any(|no| word.eq_ignore_ascii_case(no))
    };
    let statements: Vec<&str> = include_str!("distill.sql")
        .lines()
        .chain(include_str!("digest.sql").lines())
        .filter(is_sent)
        .collect();
    let input: String = statements.iter().map(|s| format!("{s};\n")).collect();
    client(format!("create database if not exists test;\ntruncate {table};\nuse test;\n{input}"));
    let answer = client(format!("select digest_text from {table} where digest_text is not null;"));
    let server: std::collections::HashSet<&str> = answer.lines().collect();
    assert!(server.len() > 50, "the server keeps {} digests", server.len());
    let mut out = Vec::new();
    let missing: Vec<_> = statements
        .iter()
        .filter(|sql| {
            fingerprint(sql.as_bytes(), Dialect::MariadbDigest, &mut out);
            !server.contains(String::from_utf8_lossy(&out).as_ref())
        })
        .collect();
    assert!(missing.is_empty(), "not among the server's digests: {missing:#?}");
}
