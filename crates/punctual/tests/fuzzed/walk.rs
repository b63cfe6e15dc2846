//! Sessions as clients hold them, walked at random, and what becomes of them on the way.

use punctual_core::rng::Rng;

/// A start-up message.
pub fn hello() -> Vec<u8> {
    start_up(0, &[("user", "ann"), ("database", "shop"), ("application_name", "walk")])
}

fn start_up(minor: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = ((3u32 << 16) | minor).to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
    }
    body.push(0);
    packet(&body)
}

fn packet(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &packet(body)].concat()
}

/// Texts that clients send: what pins, what the gateway answers, what a cluster does, and what is none of these.
const TEXTS: [&str; 48] = [
    "select 1",
    "select * from t where a = 'x' and b > 7",
    "select $1::int4, $2::text",
    "SELECT 1; SELECT 2",
    "",
    ";",
    " -- nothing",
    "begin",
    "commit",
    "rollback",
    "rollback to savepoint a",
    "savepoint a",
    "insert into t values (1, 'a', null)",
    "error please",
    "selec 1",
    "copy t from stdin",
    "copy t to stdout",
    "set a = 1",
    "set local a = 'x'",
    "set time zone 'UTC'",
    "set client_encoding to latin1",
    "set names 'utf8'",
    "reset a",
    "reset all",
    "discard all",
    "deallocate s",
    "deallocate all",
    "prepare p as select 1",
    "execute p",
    "listen c",
    "declare c cursor with hold for select 1",
    "fetch 1 from c",
    "create temp table x (a int)",
    "select pg_advisory_lock(1)",
    "select set_config('a', 'b', false)",
    "set role bob",
    "load 'x'",
    "set punctual.slo = '2s'",
    "set punctual.class = etl",
    "set punctual.priority = -3",
    "show punctual.class",
    "reset punctual.slo",
    "select * from punctual.queries where user = $1",
    "select 1 from punctual.queries, t",
    "/* punctual: class=etl, slo=soon, priority=x */ select 1",
    "select '\u{e9}', $$a$b$c$$, E'\\'', U&\"d\\0061\" /* a /* b */ c */",
    "select 1 where a in (1, 2, 3) and b = 'it''s' and c = $tag$ x $tag$",
    "with recursive r as (select 1 union all select n + 1 from r) select * from r limit 10",
];

const NAMES: [&str; 5] = ["", "s", "p", "a longer name", "punctual_0000000000000000"];

/// The messages of one session, in their order; what is sent before a session may be among them if it has not been `greeted`.
pub fn session(rng: &mut Rng, greeted: bool) -> Vec<Vec<u8>> {
    let mut messages = if greeted { Vec::new() } else { opening(rng) };
    for _ in 0..1 + rng.index(12) {
        match rng.index(8) {
            0..=2 => messages.push(query(rng)),
            3 => copy(rng, &mut messages),
            4 => messages.push(frame(pick(rng, b"XFdcfpS"), b"x\0")),
            _ => pipeline(rng, &mut messages),
        }
    }
    messages
}

fn opening(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for _ in 0..rng.index(3) {
        let code = pick(rng, &[80_877_103u32, 80_877_104, 80_877_102, 2 << 16]);
        let more: &[u8] = if code == 80_877_102 { &[0, 0, 0, 1, 0, 0, 0, 2] } else { &[] };
        messages.push(packet(&[&code.to_be_bytes()[..], more].concat()));
    }
    let mut parameters = vec![("user", "ann")];
    let more = [
        ("database", "shop"),
        ("application_name", "walk"),
        ("options", "-c punctual.class=etl --work-mem=1MB -c a=b\\ c"),
        ("replication", "database"),
        ("client_encoding", "latin1"),
        ("punctual.slo", "2s"),
        ("_pq_.x", "y"),
        ("DateStyle", "ISO"),
    ];
    for parameter in more {
        if rng.chance(0.3) {
            parameters.push(parameter);
        }
    }
    messages.push(start_up(rng.index(3) as u32, &parameters));
    if rng.chance(0.2) {
        messages.push(frame(b'p', b"SCRAM-SHA-256\0\0\0\0\x13n,,n=ann,r=abcdefghi"));
        messages.push(frame(b'p', b"c=biws,r=abcdefghi,p=AAAA"));
    }
    messages
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.index(from.len())]
}

fn text(rng: &mut Rng) -> &'static str {
    pick(rng, &TEXTS)
}

fn query(rng: &mut Rng) -> Vec<u8> {
    frame(b'Q', format!("{}\0", text(rng)).as_bytes())
}

fn copy(rng: &mut Rng, messages: &mut Vec<Vec<u8>>) {
    messages.push(frame(b'Q', b"copy t from stdin\0"));
    for _ in 0..rng.index(4) {
        messages.push(frame(b'd', b"1\t2\n"));
    }
    messages.push(frame(pick(rng, b"ccf"), b""));
}

fn pipeline(rng: &mut Rng, messages: &mut Vec<Vec<u8>>) {
    for _ in 0..1 + rng.index(6) {
        let (name, other) = (pick(rng, &NAMES), pick(rng, &NAMES));
        messages.push(match rng.index(9) {
            0..=2 => frame(b'P', format!("{name}\0{}\0\0\0", text(rng)).as_bytes()),
            3 | 4 => frame(b'B', format!("{other}\0{name}\0\0\0\0\0\0\0").as_bytes()),
            5 => frame(b'B', format!("{other}\0{name}\0\0\u{1}\0\0\0\u{1}\0\0\0\u{3}ann\0\u{1}\0\u{1}").as_bytes()),
            6 => frame(pick(rng, b"DC"), format!("{}{name}\0", if rng.chance(0.5) { 'S' } else { 'P' }).as_bytes()),
            7 => frame(b'H', b""),
            _ => frame(b'E', &[name.as_bytes(), &[0], &(rng.index(3) as u32).to_be_bytes()].concat()),
        });
    }
    if rng.chance(0.8) {
        messages.push(frame(b'S', b""));
    }
}

/// The bytes of these messages, of which some may have come to harm.
pub fn harmed(rng: &mut Rng, mut messages: Vec<Vec<u8>>) -> Vec<u8> {
    for _ in 0..rng.index(4) {
        let (at, from) = (rng.index(messages.len()), rng.index(messages.len()));
        match rng.index(4) {
            0 => messages.swap(at, from),
            1 => messages.insert(at, messages[from].clone()),
            2 => drop(messages.remove(at)),
            // A length, a count, or the end of a text is wrong.
            _ => harm(rng, &mut messages[at]),
        }
        if messages.is_empty() {
            break;
        }
    }
    let mut bytes = messages.concat();
    if rng.chance(0.2) {
        harm(rng, &mut bytes);
    }
    bytes
}

fn harm(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..1 + rng.index(3) {
        let at = rng.index(bytes.len());
        match rng.index(6) {
            0 => bytes[at] ^= 1 << rng.index(8),
            1 => bytes[at] = pick(rng, &[0, 1, 4, 0x7f, 0x80, 0xff, b'S', b'\'', b'$', b'\\']),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.insert(at, rng.bits() as u8),
            4 if bytes.len() >= 5 => {
                let any = rng.bits() as u32;
                let length = pick(rng, &[0u32, 3, 4, 5, 0xffff, 0x7fff_ffff, u32::MAX, any]);
                bytes[1..5].copy_from_slice(&length.to_be_bytes());
            }
            _ => {
                let long = vec![pick(rng, b"a \0("); 1 + rng.index(300)];
                bytes.splice(at..at, long);
            }
        }
    }
}

/// The bytes, cut where chance of that seed would; 0: not at all.
pub fn chunks(seed: u64, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rng = Rng::numbered(seed, 1);
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let most = if seed == 0 { rest.len() } else { pick(&mut rng, &[1, 2, 7, 64, 1_000]) };
        let (chunk, after) = rest.split_at_checked(most.min(rest.len()))?;
        rest = after;
        (!chunk.is_empty()).then_some(chunk)
    })
}
