//! The eight tables of TPC-H, as files for LOAD DATA.
//!
//! Purpose: rows with the distributions that the specification (version 3, clause 4.2.3) gives each column, so that each
//! query finds the intended share of rows. Only the words of comments differ.
//!
//! Invariants
//!
//! - TPG1. A row depends on seed, scale, table and its number, on nothing else.
//! - TPG2. Columns are separated by tabs, and contain no tabs, line ends or backslashes.
//!
//! Tested below.

use std::io::{self, Write};

use super::words;

/// In the order of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Region,
    Nation,
    Supplier,
    Part,
    PartSupp,
    Customer,
    Orders,
    LineItem,
}

pub const TABLES: [Table; 8] = [
    Table::Region,
    Table::Nation,
    Table::Supplier,
    Table::Part,
    Table::PartSupp,
    Table::Customer,
    Table::Orders,
    Table::LineItem,
];

impl Table {
    pub fn name(self) -> &'static str {
        match self {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Supplier => "supplier",
            Table::Part => "part",
            Table::PartSupp => "partsupp",
            Table::Customer => "customer",
            Table::Orders => "orders",
            Table::LineItem => "lineitem",
        }
    }
}

/// Days from 1992-01-01 to the last day of the data, 1998-12-31, and to its "today", 1995-06-17.
const LAST_DAY: u64 = 2556;
const TODAY: u64 = 1263;

/// SplitMix64: small, and any seed is a good one.
struct Random(u64);

impl Random {
    /// The generator of a row (TPG1).
    fn of(seed: u64, table: Table, row: u64) -> Random {
        let mut mixed = Random(seed ^ (table as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93));
        Random(mixed.next() ^ row.wrapping_mul(0xa076_1d64_78bd_642f))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform, both ends included.
    fn within(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high - low + 1);
        low + ((u128::from(self.next()) * span) >> 64) as u64
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.within(0, list.len() as u64 - 1) as usize]
    }
}

/// How many rows there are, and how to write them.
pub struct Data {
    seed: u64,
    suppliers: u64,
    parts: u64,
    customers: u64,
    clerks: u64,
    /// Number of suppliers about whom customers complain, and of those whom they recommend.
    noted: u64,
    days: Vec<String>,
}

impl Data {
    /// At scale 1 there are 6 million rows in `lineitem`. The smallest scale is 0.001.
    pub fn new(scale: f64, seed: u64) -> Data {
        let of = |full: f64, least: u64| ((full * scale).round() as u64).max(least);
        Data {
            seed,
            suppliers: of(10_000.0, 10),
            parts: of(200_000.0, 200),
            customers: of(150_000.0, 150),
            clerks: of(1_000.0, 1),
            noted: of(5.0, 1),
            days: days(),
        }
    }

    /// Writes a whole table and returns the number of its rows.
    pub fn write(&self, table: Table, to: &mut impl Write) -> io::Result<u64> {
        let mut rows = 0;
        let count = match table {
            Table::Region => words::REGIONS.len() as u64,
            Table::Nation => words::NATIONS.len() as u64,
            Table::Supplier => self.suppliers,
            Table::Part | Table::PartSupp => self.parts,
            Table::Customer => self.customers,
            Table::Orders | Table::LineItem => 10 * self.customers,
        };
        for n in 0..count {
            rows += match table {
                Table::Region => self.region(n, to)?,
                Table::Nation => self.nation(n, to)?,
                Table::Supplier => self.supplier(n + 1, to)?,
                Table::Part => self.part(n + 1, to)?,
                Table::PartSupp => self.part_suppliers(n + 1, to)?,
                Table::Customer => self.customer(n + 1, to)?,
                Table::Orders => self.order(n, to)?,
                Table::LineItem => self.lines(n, to)?,
            };
        }
        Ok(rows)
    }

    fn region(&self, n: u64, to: &mut impl Write) -> io::Result<u64> {
        let comment = text(&mut Random::of(self.seed, Table::Region, n), 31, 115);
        writeln!(to, "{n}\t{}\t{comment}", words::REGIONS[n as usize])?;
        Ok(1)
    }

    fn nation(&self, n: u64, to: &mut impl Write) -> io::Result<u64> {
        let comment = text(&mut Random::of(self.seed, Table::Nation, n), 31, 114);
        let (name, region) = words::NATIONS[n as usize];
        writeln!(to, "{n}\t{name}\t{region}\t{comment}")?;
        Ok(1)
    }

    fn supplier(&self, key: u64, to: &mut impl Write) -> io::Result<u64> {
        let r = &mut Random::of(self.seed, Table::Supplier, key);
        let (nation, address) = (r.within(0, 24), address(r));
        let (phone, balance) = (phone(r, nation), balance(r));
        let mut comment = text(r, 25, 100);
        // Spread evenly: the n-th noted supplier is complained about, the one behind it recommended.
        let each = self.suppliers / self.noted;
        let said = match (key - 1) % each {
            0 => "Complaints",
            1 => "Recommends",
            _ => "",
        };
        if !said.is_empty() && (key - 1) / each < self.noted {
            comment.truncate(75);
            comment = format!("Customer {} {said}", comment.trim_end());
        }
        writeln!(
            to,
            "{key}\tSupplier#{key:09}\t{address}\t{nation}\t{phone}\t{balance}\t{comment}"
        )?;
        Ok(1)
    }

    fn part(&self, key: u64, to: &mut impl Write) -> io::Result<u64> {
        let r = &mut Random::of(self.seed, Table::Part, key);
        let mut name: Vec<&str> = Vec::new();
        while name.len() < 5 {
            let colour = r.one_of(&words::COLOURS);
            if !name.contains(&colour) {
                name.push(colour);
            }
        }
        let maker = r.within(1, 5);
        let brand = r.within(1, 5);
        let (a, b, c) = words::TYPES;
        let kind = [r.one_of(&a), r.one_of(&b), r.one_of(&c)].join(" ");
        let size = r.within(1, 50);
        let (a, b) = words::CONTAINERS;
        let container = [r.one_of(&a), r.one_of(&b)].join(" ");
        writeln!(
            to,
            "{key}\t{}\tManufacturer#{maker}\tBrand#{maker}{brand}\t{kind}\t{size}\t{container}\t{}\t{}",
            name.join(" "),
            cents(retail_price(key)),
            text(r, 5, 22)
        )?;
        Ok(1)
    }

    /// The `i`-th of a part's four suppliers, 0 to 3.
    fn supplier_of(&self, part: u64, i: u64) -> u64 {
        let all = self.suppliers;
        // Below scale 0.023 the full range of rounds would let a part meet a supplier twice.
        let round = ((part - 1) / all) % (all / 12).max(1);
        (part + i * (all / 4 + round)) % all + 1
    }

    fn part_suppliers(&self, part: u64, to: &mut impl Write) -> io::Result<u64> {
        let r = &mut Random::of(self.seed, Table::PartSupp, part);
        for i in 0..4 {
            let supplier = self.supplier_of(part, i);
            let (quantity, cost) = (r.within(1, 9999), cents(r.within(100, 100_000)));
            writeln!(to, "{part}\t{supplier}\t{quantity}\t{cost}\t{}", text(r, 49, 198))?;
        }
        Ok(4)
    }

    fn customer(&self, key: u64, to: &mut impl Write) -> io::Result<u64> {
        let r = &mut Random::of(self.seed, Table::Customer, key);
        let (nation, address) = (r.within(0, 24), address(r));
        let (phone, balance) = (phone(r, nation), balance(r));
        let segment = r.one_of(&words::SEGMENTS);
        writeln!(
            to,
            "{key}\tCustomer#{key:09}\t{address}\t{nation}\t{phone}\t{balance}\t{segment}\t{}",
            text(r, 29, 116)
        )?;
        Ok(1)
    }

    /// The date and the lines of the `n`-th order, on which both tables have to agree.
    fn lines_of(&self, n: u64) -> (u64, Vec<Line>) {
        let r = &mut Random::of(self.seed, Table::LineItem, n);
        let ordered = r.within(0, LAST_DAY - 151);
        let lines = (0..r.within(1, 7)).map(|_| self.line(r, ordered)).collect();
        (ordered, lines)
    }

    fn line(&self, r: &mut Random, ordered: u64) -> Line {
        let part = r.within(1, self.parts);
        let quantity = r.within(1, 50);
        let shipped = ordered + r.within(1, 121);
        Line {
            part,
            supplier: self.supplier_of(part, r.within(0, 3)),
            quantity,
            price: quantity * retail_price(part),
            discount: r.within(0, 10),
            tax: r.within(0, 8),
            shipped,
            committed: ordered + r.within(30, 90),
            received: shipped + r.within(1, 30),
        }
    }

    fn order(&self, n: u64, to: &mut impl Write) -> io::Result<u64> {
        let (ordered, lines) = self.lines_of(n);
        let r = &mut Random::of(self.seed, Table::Orders, n);
        // A third of the customers has no orders.
        let customer = loop {
            let customer = r.within(1, self.customers);
            if !customer.is_multiple_of(3) {
                break customer;
            }
        };
        let open = lines.iter().filter(|l| l.shipped > TODAY).count();
        let status = match open {
            0 => 'F',
            _ if open == lines.len() => 'O',
            _ => 'P',
        };
        let paid = |l: &Line| l.price * (100 + l.tax) * (100 - l.discount);
        let total: u64 = lines.iter().map(paid).sum::<u64>() / 10_000;
        let (priority, clerk) = (r.one_of(&words::PRIORITIES), r.within(1, self.clerks));
        writeln!(
            to,
            "{}\t{customer}\t{status}\t{}\t{}\t{priority}\tClerk#{clerk:09}\t0\t{}",
            order_key(n),
            cents(total),
            self.days[ordered as usize],
            text(r, 19, 78)
        )?;
        Ok(1)
    }

    fn lines(&self, n: u64, to: &mut impl Write) -> io::Result<u64> {
        let (_, lines) = self.lines_of(n);
        // Drawn separately, so that the order's row needs only what it uses.
        let r = &mut Random::of(!self.seed, Table::LineItem, n);
        for (line, number) in lines.iter().zip(1..) {
            let returned = match line.received <= TODAY {
                true => r.one_of(&['R', 'A']),
                false => 'N',
            };
            let status = if line.shipped > TODAY { 'O' } else { 'F' };
            writeln!(
                to,
                "{}\t{}\t{}\t{number}\t{}\t{}\t0.{:02}\t0.{:02}\t{returned}\t{status}\t{}\t{}\t{}\t{}\t{}\t{}",
                order_key(n),
                line.part,
                line.supplier,
                line.quantity,
                cents(line.price),
                line.discount,
                line.tax,
                self.days[line.shipped as usize],
                self.days[line.committed as usize],
                self.days[line.received as usize],
                r.one_of(&words::INSTRUCTIONS),
                r.one_of(&words::MODES),
                text(r, 10, 43)
            )?;
        }
        Ok(lines.len() as u64)
    }
}

struct Line {
    part: u64,
    supplier: u64,
    quantity: u64,
    /// Cents.
    price: u64,
    /// Hundredths.
    discount: u64,
    tax: u64,
    /// Days.
    shipped: u64,
    committed: u64,
    received: u64,
}

/// Of each 32 keys the first eight are used.
fn order_key(n: u64) -> u64 {
    n / 8 * 32 + n % 8 + 1
}

fn retail_price(part: u64) -> u64 {
    90_000 + (part / 10) % 20_001 + 100 * (part % 1_000)
}

fn cents(n: u64) -> String {
    format!("{}.{:02}", n / 100, n % 100)
}

/// From -999.99 to 9999.99.
fn balance(r: &mut Random) -> String {
    let above = r.within(0, 1_099_998) as i64 - 99_999;
    let sign = if above < 0 { "-" } else { "" };
    format!("{sign}{}", cents(above.unsigned_abs()))
}

fn phone(r: &mut Random, nation: u64) -> String {
    let (a, b, c) = (r.within(100, 999), r.within(100, 999), r.within(1000, 9999));
    format!("{}-{a}-{b}-{c}", nation + 10)
}

fn address(r: &mut Random) -> String {
    const SIGNS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789, ";
    let sign = |r: &mut Random| char::from(r.one_of(SIGNS));
    (0..r.within(10, 40)).map(|_| sign(r)).collect()
}

/// Words up to a length that is uniform between the two.
fn text(r: &mut Random, least: u64, most: u64) -> String {
    let length = r.within(least, most) as usize;
    let mut out = String::with_capacity(length + 12);
    while out.len() < length {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(r.one_of(&words::TEXT));
    }
    out.truncate(length);
    out
}

/// Every day from 1992-01-01 to 1998-12-31.
fn days() -> Vec<String> {
    let mut days = Vec::new();
    for year in 1992..=1998 {
        let february = if year % 4 == 0 { 29 } else { 28 };
        for (month, length) in
            [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].iter().enumerate()
        {
            days.extend((1..=*length).map(|day| format!("{year}-{:02}-{day:02}", month + 1)));
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(table: Table, scale: f64) -> Vec<Vec<String>> {
        let mut out = Vec::new();
        let rows = Data::new(scale, 1).write(table, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let cells: Vec<Vec<String>> =
            text.lines().map(|l| l.split('\t').map(str::to_string).collect()).collect();
        assert_eq!(rows, cells.len() as u64);
        cells
    }

    #[test]
    fn each_table_has_its_columns_and_rows() {
        let expected = [(3, 5), (4, 25), (7, 10), (9, 200), (5, 800), (8, 150), (9, 1500)];
        for (t, (columns, rows)) in TABLES.into_iter().zip(expected) {
            let cells = table(t, 0.001);
            assert!(cells.iter().all(|row| row.len() == columns), "{t:?}");
            assert_eq!(cells.len(), rows, "{t:?}");
        }
        let lines = table(Table::LineItem, 0.001);
        assert!(lines.iter().all(|row| row.len() == 16));
        assert!((5_500..6_500).contains(&lines.len()), "{}", lines.len());
    }

    #[test]
    fn days_end_where_the_specification_says() {
        let days = days();
        assert_eq!(days[TODAY as usize], "1995-06-17");
        assert_eq!(days[LAST_DAY as usize], "1998-12-31");
        assert_eq!(days.len() as u64, LAST_DAY + 1);
    }

    #[test]
    fn a_part_has_four_different_suppliers_and_lines_have_one_of_them() {
        for scale in [0.001, 0.01, 0.02, 0.05, 0.1] {
            let data = Data::new(scale, 1);
            for part in 1..=data.parts {
                let mut of: Vec<u64> = (0..4).map(|i| data.supplier_of(part, i)).collect();
                of.sort_unstable();
                of.dedup();
                assert_eq!(of.len(), 4, "part {part} at scale {scale}");
                assert!(of.iter().all(|s| (1..=data.suppliers).contains(s)));
            }
        }
    }

    #[test]
    fn queries_find_the_share_of_rows_that_they_are_meant_to() {
        let orders = table(Table::Orders, 0.01);
        let special = |c: &str| c.find("special").is_some_and(|at| c[at..].contains("requests"));
        let of = orders.iter().filter(|row| special(&row[8])).count() as f64;
        let share = of / orders.len() as f64;
        assert!((0.008..0.014).contains(&share), "query 13: {share}");
        let lines = table(Table::LineItem, 0.01);
        let late = lines.iter().filter(|row| row[11] < row[12]).count() as f64;
        let share = late / lines.len() as f64;
        assert!((0.61..0.65).contains(&share), "queries 4 and 21: {share}");
    }
}
