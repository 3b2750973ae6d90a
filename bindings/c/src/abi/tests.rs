//! The headers against this crate: see [`super`].
//!
//! A C program is made from three lists: the constants and structures of [`super`], the functions in the sources of
//! this crate, and the names in the headers. It declares every function again with the types that Rust has (a C
//! compiler refuses what differs) and prints every number, size and offset that the headers have.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex::Regex;
use syn::{FnArg, Item, PointerMutability, ReturnType, Type};

use super::{NUMBERS, STRUCTURES};

pub(super) struct Structure {
    pub name: &'static str,
    pub size: usize,
    pub align: usize,
    pub fields: &'static [Field],
}

pub(super) struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
    pub ty: &'static str,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// What the headers declare, by name.
#[derive(Default)]
struct Headers {
    /// "enumeration.CONSTANT"
    constants: BTreeSet<String>,
    /// "structure.field"
    fields: BTreeSet<String>,
    functions: BTreeSet<String>,
    /// FROND_..._INIT
    initialisers: BTreeSet<String>,
}

impl Headers {
    fn read() -> Headers {
        let mut found = Headers::default();
        for name in ["frond.h", "frond_rows.h", "frond_foreign.h"] {
            found.add(&fs::read_to_string(folder("include").join(name)).unwrap());
        }
        found
    }

    fn add(&mut self, text: &str) {
        let text = replace(r"(?s)/\*.*?\*/", text, "");
        let text = text.replace("\\\n", " ");
        let directive = Regex::new(r"(?m)^#define (\w+)(.*)$").unwrap();
        for define in directive.captures_iter(&text) {
            let name = &define[1];
            // An include guard has no value. Everything else must be something that is compared.
            if !define[2].trim().is_empty() {
                assert!(name.ends_with("_INIT"), "the macro {name} is compared with nothing");
                self.initialisers.insert(name.to_owned());
            }
        }
        let text = replace(r"(?m)^#.*$", &text, "");
        let text = text.replace("extern \"C\" {", "");
        let block = Regex::new(r"(?s)(enum|typedef struct) (\w+) \{(.*?)\}[^;]*;").unwrap();
        let name = Regex::new(r"^(?:.*\(\*(\w+)\).*|.*?(\w+)(?:\[\d+\])*)$").unwrap();
        for b in block.captures_iter(&text) {
            if &b[1] == "enum" {
                for constant in b[3].split(',').filter(|c| !c.trim().is_empty()) {
                    let (constant, _) = constant.split_once('=').unwrap();
                    self.constants.insert(format!("{}.{}", &b[2], constant.trim()));
                }
                continue;
            }
            for declaration in b[3].split(';').filter(|d| !d.trim().is_empty()) {
                let one_line = declaration.split_whitespace().collect::<Vec<_>>().join(" ");
                let declarators: Vec<&str> = match one_line.contains('(') {
                    true => vec![&one_line],
                    false => one_line.split(", ").collect(),
                };
                for declarator in declarators {
                    let m = name.captures(declarator).unwrap();
                    let field = m.get(1).or(m.get(2)).unwrap().as_str();
                    self.fields.insert(format!("{}.{field}", &b[2]));
                }
            }
        }
        let rest = block.replace_all(&text, "");
        let function = Regex::new(r"(\w+)\s*\(").unwrap();
        for declaration in rest.split(';').filter(|d| d.contains('(')) {
            self.functions.insert(function.captures(declaration).unwrap()[1].to_owned());
        }
    }
}

fn replace(pattern: &str, text: &str, by: &str) -> String {
    Regex::new(pattern).unwrap().replace_all(text, by).into_owned()
}

/// What the sources of this crate say: functions for C, and names of types.
#[derive(Default)]
struct Sources {
    functions: BTreeMap<String, syn::Signature>,
    aliases: BTreeMap<String, Type>,
}

impl Sources {
    fn read() -> Sources {
        let mut found = Sources::default();
        found.add(&folder("src"));
        found
    }

    fn add(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.add(&path);
            } else {
                self.add_items(syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap().items);
            }
        }
    }

    fn add_items(&mut self, items: Vec<Item>) {
        for item in items {
            match item {
                Item::Fn(f) if f.sig.abi.is_some() => {
                    self.functions.insert(f.sig.ident.to_string(), f.sig);
                }
                Item::Type(t) => {
                    self.aliases.insert(t.ident.to_string(), *t.ty);
                }
                _ => {}
            }
        }
    }

    /// A C declaration of `declarator` with a Rust type.
    fn declare(&self, ty: &Type, constant: bool, declarator: &str) -> String {
        let prefix = if constant { "const " } else { "" };
        match ty {
            Type::Ptr(p) => {
                let inner = format!("(*{prefix}{declarator})");
                self.declare(&p.elem, matches!(p.mutability, PointerMutability::Const(_)), &inner)
            }
            Type::Array(a) => {
                let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(n), .. }) = &a.len else {
                    panic!("the length of an array in the interface is a number")
                };
                self.declare(&a.elem, constant, &format!("{declarator}[{n}]"))
            }
            Type::FnPtr(f) => {
                let arguments: Vec<String> =
                    f.inputs.iter().map(|a| self.declare(&a.ty, false, "")).collect();
                self.returning(&f.output, &format!("(*{declarator})"), &arguments)
            }
            Type::Path(p) => {
                let last = p.path.segments.last().unwrap();
                if let syn::PathArguments::AngleBracketed(generic) = &last.arguments {
                    let Some(syn::GenericArgument::Type(inner)) = generic.args.first() else {
                        panic!("Option of what?")
                    };
                    assert_eq!(last.ident, "Option", "no other generic type has a C layout");
                    return self.declare(inner, constant, declarator);
                }
                let name = last.ident.to_string();
                if let Some(meaning) = self.aliases.get(&name) {
                    return self.declare(meaning, constant, declarator);
                }
                let name = match name.as_str() {
                    "u8" => "uint8_t",
                    "u16" => "uint16_t",
                    "u32" => "uint32_t",
                    "u64" => "uint64_t",
                    "i32" => "int32_t",
                    "i64" => "int64_t",
                    "usize" => "size_t",
                    "c_int" => "int",
                    "c_char" => "char",
                    "c_void" => "void",
                    name if name.starts_with("frond_") => name,
                    name => panic!("what is {name} in C?"),
                };
                format!("{prefix}{name} {declarator}")
            }
            _ => panic!("a type of the interface that has no counterpart in C"),
        }
    }

    fn returning(&self, output: &ReturnType, declarator: &str, arguments: &[String]) -> String {
        let arguments = match arguments {
            [] => "void".to_owned(),
            some => some.join(", "),
        };
        let declarator = format!("{declarator}({arguments})");
        match output {
            ReturnType::Default => format!("void {declarator}"),
            ReturnType::Type(_, ty) => self.declare(ty, false, &declarator),
        }
    }

    fn function(&self, signature: &syn::Signature) -> String {
        let argument = |a: &FnArg| {
            let FnArg::Typed(a) = a else { panic!("methods are not for C") };
            self.declare(&a.ty, false, "")
        };
        let arguments: Vec<String> = signature.inputs.iter().map(argument).collect();
        self.returning(&signature.output, &signature.ident.to_string(), &arguments)
    }
}

/// Fails with the items that only one side has.
fn compare<T: Ord + std::fmt::Debug>(headers: &BTreeSet<T>, rust: &BTreeSet<T>) {
    let in_headers: Vec<&T> = headers.difference(rust).collect();
    let in_rust: Vec<&T> = rust.difference(headers).collect();
    assert!(
        in_headers.is_empty() && in_rust.is_empty(),
        "in the headers alone: {in_headers:?}; in Rust alone: {in_rust:?}"
    );
}

fn field_name(f: &Field) -> &'static str {
    f.name.trim_start_matches("r#")
}

/// The program, and what it prints when both sides agree.
fn program(headers: &Headers, sources: &Sources) -> (String, BTreeSet<(String, i64)>) {
    let mut c =
        String::from("#include \"frond_foreign.h\"\n#include <stdalign.h>\n#include <stdio.h>\n");
    for signature in sources.functions.values() {
        c += &format!("{};\n", sources.function(signature));
    }
    c += "int main(void)\n{\n";
    let mut expected = BTreeSet::new();
    let mut say = |what: &str, expression: &str, rust: i64| {
        expected.insert((what.to_owned(), rust));
        format!("    printf(\"{what} %lld\\n\", (long long)({expression}));\n")
    };
    for (enumeration, name, value) in NUMBERS {
        // Through the enumeration's own type: a name of that enumeration, not of another.
        c += &say(&format!("{enumeration}.{name}"), &format!("(enum {enumeration}){name}"), *value);
    }
    for s in STRUCTURES {
        let name = s.name;
        c += &say(&format!("sizeof {name}"), &format!("sizeof({name})"), s.size as i64);
        c += &say(&format!("alignof {name}"), &format!("alignof({name})"), s.align as i64);
        for f in s.fields {
            let field = field_name(f);
            let at = format!("offsetof({name}, {field})");
            c += &say(&format!("offset of {name}.{field}"), &at, f.offset as i64);
            let long = format!("sizeof((({name} *)0)->{field})");
            c += &say(&format!("size of {name}.{field}"), &long, f.size as i64);
            let pointer = sources.declare(&syn::parse_str(f.ty).unwrap(), false, "(*p)");
            c += &format!("    {{ {pointer} = &(({name} *)0)->{field}; (void)p; }}\n");
        }
    }
    for macro_name in &headers.initialisers {
        let name = macro_name.trim_end_matches("_INIT").to_lowercase();
        let size = STRUCTURES.iter().find(|s| s.name == name).map(|s| s.size as i64);
        let size = size.unwrap_or_else(|| panic!("{macro_name} is of which structure?"));
        c += &format!("    const {name} {name}_init = {macro_name};\n");
        c += &say(macro_name, &format!("{name}_init.struct_size"), size);
    }
    (c + "    return 0;\n}\n", expected)
}

/// Compiles and runs `program`; returns its output.
fn run(program: &str) -> BTreeSet<(String, i64)> {
    let scratch = tempfile::tempdir().unwrap();
    let binary = scratch.path().join("abi");
    let mut compiler = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-x", "c", "-", "-I"])
        .arg(folder("include"))
        .arg("-o")
        .arg(&binary)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    assert!(
        compiler.wait().unwrap().success(),
        "the headers and Rust differ, as the compiler says"
    );
    let output = Command::new(&binary).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let pair = |line: &str| {
        let (what, number) = line.rsplit_once(' ').unwrap();
        (what.to_owned(), number.parse().unwrap())
    };
    lines.lines().map(pair).collect()
}

#[test]
fn numbers_and_layouts_are_those_of_the_headers() {
    let (program, expected) = program(&Headers::read(), &Sources::read());
    compare(&run(&program), &expected);
}

#[test]
fn no_name_stands_on_one_side_only() {
    let (headers, sources) = (Headers::read(), Sources::read());
    let constants = NUMBERS.iter().map(|(e, name, _)| format!("{e}.{name}")).collect();
    compare(&headers.constants, &constants);
    let fields = STRUCTURES
        .iter()
        .flat_map(|s| s.fields.iter().map(|f| format!("{}.{}", s.name, field_name(f))))
        .collect();
    compare(&headers.fields, &fields);
    let functions = sources.functions.keys().cloned().collect();
    compare(&headers.functions, &functions);
}

#[test]
fn every_kind_of_error_has_a_code() {
    let errors = folder("../../engine/base/src/error.rs");
    let file = syn::parse_file(&fs::read_to_string(errors).unwrap()).unwrap();
    let kinds = file.items.iter().find_map(|item| match item {
        Item::Enum(e) if e.ident == "ErrorKind" => Some(&e.variants),
        _ => None,
    });
    let word = Regex::new("[A-Z][a-z]+").unwrap();
    let mut expected: BTreeSet<String> = ["FROND_OK", "FROND_END"].map(str::to_owned).into();
    for kind in kinds.unwrap() {
        let name = kind.ident.to_string().replace("NoWait", "Nowait");
        let words: Vec<String> = word.find_iter(&name).map(|w| w.as_str().to_uppercase()).collect();
        expected.insert(format!("FROND_{}", words.join("_")));
    }
    let codes = NUMBERS.iter().filter(|(e, ..)| *e == "frond_error");
    assert_eq!(codes.map(|(_, name, _)| (*name).to_owned()).collect::<BTreeSet<_>>(), expected);
}

#[test]
fn reading_a_header_finds_every_form_of_declaration() {
    let mut found = Headers::default();
    found.add(
        "/* int no(void); */\n#define GUARD_H\n#define FROND_X_INIT \\\n    { 1 }\n\
         enum frond_e { FROND_A = 1, /* a, b */ FROND_B = -2 };\n\
         typedef struct frond_s {\n    uint32_t a, b;\n    const uint8_t *p;\n    uint8_t m[8][4];\n\
         void (*call)(void *ctx,\n        int n);\n} frond_s;\n\
         typedef struct frond_o frond_o;\nconst char *frond_f(void);\nint frond_g(\n    int (*k)(void *), int n);\n",
    );
    let words = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(words(&found.constants), "frond_e.FROND_A frond_e.FROND_B");
    assert_eq!(words(&found.fields), "frond_s.a frond_s.b frond_s.call frond_s.m frond_s.p");
    assert_eq!(words(&found.functions), "frond_f frond_g");
    assert_eq!(words(&found.initialisers), "FROND_X_INIT");
}
