//! What a client does in a round. Whatever it is answered has to be its own.

use std::net::SocketAddr;

use crate::Tally;
use crate::common::raw::{bind, execute, flush, frame, parse, query, sync};
use crate::common::wire::{Answer, Gone, Told, Wire, told, values};
use crate::dice::Dice;

/// Codes that tell of clusters that were killed.
const TROUBLE: [&str; 4] = ["08006", "57P01", "57P02", "57P03"];

/// A client: one session at a time, and what it has done on it.
pub(crate) struct Actor<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) wire: Wire,
    pub(crate) dice: Dice,
    pub(crate) tally: &'a Tally,
    /// Its own name in all that it asks for.
    pub(crate) name: String,
    pub(crate) asked: u32,
    /// True once the session has its prepared statement.
    prepared: bool,
    /// True if clusters are Postgres, and know transactions, COPY and settings.
    pub(crate) full: bool,
}

impl<'a> Actor<'a> {
    pub(crate) async fn new(address: SocketAddr, name: String, seed: u64, full: bool, tally: &'a Tally) -> Actor<'a> {
        let wire = Wire::open(address, "ann").await;
        Actor { address, wire, dice: Dice(seed), tally, name, asked: 0, prepared: false, full }
    }

    /// One round. A session that is over is followed by another.
    pub(crate) async fn round(&mut self) {
        let done = match self.dice.roll(if self.full { 13 } else { 8 }) {
            0 | 1 => self.simple().await,
            2 => self.prepared().await,
            3 => self.pipeline().await,
            4 => self.cancelled().await,
            5 => self.hang_up().await,
            6 => self.slowly().await,
            7 => self.in_pieces().await,
            8 => self.timed_out().await,
            9 => self.transaction().await,
            10 => self.copy_out().await,
            11 => self.copy_in().await,
            _ => self.setting().await,
        };
        if let Err(Gone) = done {
            self.tally.reconnected();
            self.wire = Wire::open(self.address, "ann").await;
            self.prepared = false;
        }
    }

    fn marker(&mut self) -> String {
        self.asked += 1;
        format!("{}-{}", self.name, self.asked)
    }

    fn some(&mut self, most: u64) -> usize {
        1 + self.dice.roll(most) as usize
    }

    async fn simple(&mut self) -> Result<(), Gone> {
        let (marker, n) = (self.marker(), self.some(300));
        let answer = self.wire.ask(&series(&marker, n)).await?;
        self.judge(&answer, &[(marker, n)], &[])
    }

    /// By a named statement of the session, on whatever connection, with numbers in text or in binary.
    async fn prepared(&mut self) -> Result<(), Gone> {
        if !self.full {
            // Engines that are not Postgres have no such table function with parameters.
            return self.simple().await;
        }
        let (marker, n, is_binary) = (self.marker(), self.some(300), self.dice.roll(2) == 0);
        let mut out = Vec::new();
        if !self.prepared {
            out.extend(parse("echo", "select $1::text, g from generate_series(1, $2::int4) g"));
        }
        let mut body = b"\0echo\0\0\0\0\x02".to_vec();
        for value in [&marker, &n.to_string()] {
            body.extend_from_slice(&(value.len() as u32).to_be_bytes());
            body.extend_from_slice(value.as_bytes());
        }
        body.extend_from_slice(&[0, 1, 0, u8::from(is_binary)]);
        out.extend([frame(b'B', &body), execute(0), sync()].concat());
        self.wire.send(&out).await?;
        let mut answer = self.wire.answer().await?;
        self.prepared |= answer.error.is_none() && answer.status == b'I';
        for row in answer.rows.iter_mut().filter(|_| is_binary) {
            let number = i32::from_be_bytes(row[1][..].try_into().expect("four bytes"));
            row[1] = number.to_string().into_bytes();
        }
        // Its Parse may have failed with its cluster, or been done there before the rest failed: the next one is sure.
        if answer.error.as_ref().is_some_and(|told| told.code == "42P05") {
            self.prepared = true;
            return Ok(());
        }
        self.judge(&answer, &[(marker, n)], &[])
    }

    /// Several statements before one Sync; one in the middle may fail.
    async fn pipeline(&mut self) -> Result<(), Gone> {
        let (count, fails) = (self.some(5), self.dice.roll(10) as usize);
        let (mut out, mut expected, mut failing) = (Vec::new(), Vec::new(), None);
        for at in 0..count {
            let (marker, n) = (self.marker(), self.some(50));
            if at == fails {
                out.extend(parse("", &format!("select '{marker}'::int4")));
                failing = Some(marker);
            } else {
                out.extend(parse("", &series(&marker, n)));
                expected.extend(failing.is_none().then_some((marker, n)));
            }
            out.extend([bind("", &[]), execute(0)].concat());
        }
        out.extend(sync());
        self.wire.send(&out).await?;
        let answer = self.wire.answer().await?;
        match (&answer.error, failing) {
            (Some(told), Some(marker)) if !TROUBLE.contains(&&*told.code) => {
                assert!(told.message.contains(&marker), "{told:?} is not about {marker}");
                belongs(&answer, &expected, true);
                self.tally.told(&told.code);
                Ok(())
            }
            (None, Some(marker)) => panic!("{marker} is no number, and nobody said so"),
            _ => self.judge(&answer, &expected, &[]),
        }
    }

    /// Taken back while it waits, runs, or answers.
    async fn cancelled(&mut self) -> Result<(), Gone> {
        let (marker, n, after) = (self.marker(), 20_000, self.dice.roll(2_000));
        let cancelling = self.wire.canceller();
        let cancel = tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_micros(after)).await;
            cancelling.await;
        });
        let answer = self.wire.ask(&series(&marker, n)).await;
        cancel.await.expect("no panic");
        self.judge(&answer?, &[(marker, n)], &["57014"])
    }

    /// Left in the middle, at any point.
    async fn hang_up(&mut self) -> Result<(), Gone> {
        let marker = self.marker();
        let sql = series(&marker, 50_000);
        let sent = query(&sql);
        match self.dice.roll(4) {
            0 => self.wire.send(&sent[..self.dice.roll(sent.len() as u64) as usize]).await?,
            1 => self.wire.send(&[parse("", &sql), bind("", &[]), execute(0), flush()].concat()).await?,
            _ => self.wire.send(&sent).await?,
        }
        if self.dice.roll(3) > 0 {
            return Err(Gone);
        }
        self.wire.send(&sync()[..self.dice.roll(3) as usize]).await?;
        Err(Gone)
    }

    /// More than fits into buffers, read in parts.
    async fn slowly(&mut self) -> Result<(), Gone> {
        let (marker, n) = (self.marker(), 5_000 + self.some(15_000));
        let stops = self.dice.roll(3) == 0;
        self.wire.send(&query(&series(&marker, n))).await?;
        let mut seen = 0;
        loop {
            let (tag, body) = self.wire.frame().await?;
            match tag {
                b'D' => {
                    seen += 1;
                    one_belongs(&values(&body), &marker, seen);
                    if seen == n / 2 && stops {
                        return Err(Gone);
                    }
                    if seen % 2_048 == 0 {
                        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                    }
                }
                b'E' => self.judge_error(&told(&body), &[]),
                b'Z' => {
                    self.tally.rows(seen);
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// A portal with a limit, as often as it takes.
    async fn in_pieces(&mut self) -> Result<(), Gone> {
        if !self.full {
            return self.simple().await;
        }
        let (marker, n) = (self.marker(), 25);
        let begun = [parse("", &series(&marker, n)), bind("", &[]), execute(10), flush()].concat();
        self.wire.send(&begun).await?;
        let (mut rows, mut is_synced) = (0, false);
        loop {
            let (tag, body) = self.wire.frame().await?;
            match tag {
                b'D' => {
                    rows += 1;
                    one_belongs(&values(&body), &marker, rows);
                }
                b's' if rows == 10 && self.dice.roll(5) == 0 => return Err(Gone),
                b's' => self.wire.send(&[execute(10), flush()].concat()).await?,
                b'C' | b'E' => {
                    if tag == b'E' {
                        self.judge_error(&told(&body), &[]);
                    }
                    // Its cluster may be lost after the last row, too.
                    if !is_synced {
                        self.wire.send(&sync()).await?;
                        is_synced = true;
                    }
                }
                b'Z' => {
                    self.tally.rows(rows);
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    async fn timed_out(&mut self) -> Result<(), Gone> {
        let marker = self.marker();
        let sql = format!("begin; set local statement_timeout = 5; select '{marker}', pg_sleep(10)");
        let answer = self.wire.ask(&sql).await?;
        self.judge(&answer, &[], &["57014"])?;
        let answer = self.wire.ask("rollback").await?;
        self.judge(&answer, &[], &[])
    }

    /// Several queries on one connection, which another must not see; it may be left in the middle.
    async fn transaction(&mut self) -> Result<(), Gone> {
        let begun = self.wire.ask("begin").await?;
        self.judge(&begun, &[], &[])?;
        if begun.status != b'T' {
            return Ok(());
        }
        for _ in 0..self.some(4) {
            let (marker, n) = (self.marker(), self.some(100));
            let answer = self.wire.ask(&series(&marker, n)).await?;
            self.judge(&answer, &[(marker, n)], &[])?;
            assert_eq!(answer.status, b'T', "a transaction does not end by itself: {:?}", answer.error);
            if self.dice.roll(8) == 0 {
                return Err(Gone);
            }
        }
        let end = if self.dice.roll(2) == 0 { "commit" } else { "rollback" };
        let answer = self.wire.ask(end).await?;
        self.judge(&answer, &[], &[])
    }

    async fn copy_out(&mut self) -> Result<(), Gone> {
        let (marker, n) = (self.marker(), self.some(500));
        let answer = self.wire.ask(&format!("copy ({}) to stdout", series(&marker, n))).await?;
        for (at, line) in answer.copied.iter().enumerate() {
            assert_eq!(*line, format!("{marker}\t{}", at + 1), "a line of another's");
        }
        match &answer.error {
            Some(told) => self.judge_error(told, &[]),
            None => assert_eq!(answer.copied.len(), n),
        }
        self.tally.rows(answer.copied.len());
        Ok(())
    }

    /// Rows go in and come out again; it may be left in the middle.
    async fn copy_in(&mut self) -> Result<(), Gone> {
        let (marker, n) = (self.marker(), self.some(100));
        let begun = self.wire.ask("begin; create temp table mine (marker text, n int4) on commit drop").await?;
        self.judge(&begun, &[], &[])?;
        if begun.status != b'T' {
            return Ok(());
        }
        let answer = self.wire.ask("copy mine from stdin").await?;
        if let Some(told) = &answer.error {
            self.judge_error(told, &[]);
            return Err(Gone);
        }
        for at in 1..=n {
            self.wire.send(&frame(b'd', format!("{marker}\t{at}\n").as_bytes())).await?;
        }
        if self.dice.roll(4) == 0 {
            return Err(Gone);
        }
        self.wire.send(&frame(b'c', b"")).await?;
        let answer = self.wire.answer().await?;
        self.judge(&answer, &[], &[])?;
        let answer = self.wire.ask("select * from mine order by n").await?;
        self.judge(&answer, &[(marker, n)], &[])?;
        let answer = self.wire.ask("commit").await?;
        self.judge(&answer, &[], &[])
    }

    /// What a session has set is its own, whatever connection it gets.
    async fn setting(&mut self) -> Result<(), Gone> {
        let marker = self.marker();
        let answer = self.wire.ask(&format!("set my.marker = '{marker}'")).await?;
        if let Some(told) = &answer.error {
            self.judge_error(told, &[]);
            return Ok(());
        }
        for _ in 0..3 {
            let answer = self.wire.ask("select current_setting('my.marker', true), 1").await?;
            self.judge(&answer, &[(marker.clone(), 1)], &[])?;
        }
        Ok(())
    }

    /// Everything is the client's own, and all of it is there unless an error says why not. A session whose last words were
    /// an error is over.
    fn judge(&self, answer: &Answer, expected: &[(String, usize)], also: &[&str]) -> Result<(), Gone> {
        belongs(answer, expected, answer.error.is_none() && answer.status != 0);
        if let Some(told) = &answer.error {
            self.judge_error(told, also);
        }
        self.tally.rows(answer.rows.len());
        if answer.status == 0 { Err(Gone) } else { Ok(()) }
    }

    fn judge_error(&self, told: &Told, also: &[&str]) {
        let is_known = TROUBLE.contains(&&*told.code) || also.contains(&&*told.code);
        assert!(is_known, "{}: {told:?}", self.name);
        self.tally.told(&told.code);
    }
}

/// Rows that carry the marker and their number.
fn series(marker: &str, n: usize) -> String {
    format!("select '{marker}' as marker, g from generate_series(1, {n}) as g(g)")
}

fn one_belongs(row: &[Vec<u8>], marker: &str, at: usize) {
    let row: Vec<_> = row.iter().map(|value| String::from_utf8_lossy(value)).collect();
    assert_eq!(row, [marker, &at.to_string()], "a row of another query");
}

/// The rows are those of these series, in their order: all, or as far as it went.
fn belongs(answer: &Answer, expected: &[(String, usize)], all: bool) {
    let mut rows = answer.rows.iter();
    for (marker, n) in expected {
        for at in 1..=*n {
            match rows.next() {
                Some(row) => one_belongs(row, marker, at),
                None => {
                    assert!(!all, "{marker}: {} rows are not all", answer.rows.len());
                    return;
                }
            }
        }
    }
    assert!(rows.next().is_none(), "more rows than were asked for");
}
