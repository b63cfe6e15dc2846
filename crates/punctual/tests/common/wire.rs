//! A client that takes everything for possible: that it is hung up on in the middle of a message, or told to go.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::raw::{query, start_up};

/// The session is over.
#[derive(Debug)]
pub struct Gone;

/// An error that the client was told.
#[derive(Debug)]
pub struct Told {
    pub code: String,
    pub message: String,
}

/// What came until ReadyForQuery.
#[derive(Debug, Default)]
pub struct Answer {
    /// The values of each row, as they came.
    pub rows: Vec<Vec<Vec<u8>>>,
    /// Lines of a COPY.
    pub copied: Vec<String>,
    pub error: Option<Told>,
    pub status: u8,
}

/// A session.
pub struct Wire {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    key: Vec<u8>,
}

impl Wire {
    /// Connects and is welcomed.
    pub async fn open(address: SocketAddr, user: &str) -> Wire {
        Wire::open_as(address, user, "test").await
    }

    /// The same, as that application.
    pub async fn open_as(address: SocketAddr, user: &str, application: &str) -> Wire {
        let stream = BufReader::new(TcpStream::connect(address).await.expect("the gateway listens"));
        let mut wire = Wire { stream, address, key: Vec::new() };
        wire.send(&start_up(0, &[("user", user), ("database", "postgres"), ("application_name", application)]))
            .await
            .expect("the gateway reads");
        let welcome = wire.answer().await.expect("a welcome");
        assert!(welcome.error.is_none(), "{:?}", welcome.error);
        wire
    }

    /// What cancels what this session runs.
    pub fn canceller(&self) -> impl Future<Output = ()> + Send + use<> {
        let (address, key) = (self.address, self.key.clone());
        async move {
            let mut stream = TcpStream::connect(address).await.expect("the gateway listens");
            let request = [&16u32.to_be_bytes()[..], &80_877_102u32.to_be_bytes(), &key].concat();
            stream.write_all(&request).await.expect("the gateway reads");
            // It hangs up once it has taken note.
            let _ = stream.read(&mut [0; 1]).await;
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.stream.get_mut().write_all(bytes).await.map_err(|_| Gone)
    }

    /// The next frame's tag and body.
    pub async fn frame(&mut self) -> Result<(u8, Vec<u8>), Gone> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header).await.map_err(|_| Gone)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).await.map_err(|_| Gone)?;
        if header[0] == b'K' {
            self.key.clone_from(&body);
        }
        Ok((header[0], body))
    }

    /// Everything up to ReadyForQuery, or to a request for COPY data. What came before the session was over is an answer,
    /// too, if it says why: the next frame is not there then.
    pub async fn answer(&mut self) -> Result<Answer, Gone> {
        let mut answer = Answer::default();
        loop {
            let (tag, body) = match self.frame().await {
                Ok(frame) => frame,
                Err(Gone) if answer.error.is_some() || !answer.rows.is_empty() => return Ok(answer),
                Err(Gone) => return Err(Gone),
            };
            match tag {
                b'D' => answer.rows.push(values(&body)),
                b'd' => answer.copied.push(String::from_utf8_lossy(&body).trim_end().to_owned()),
                b'E' => answer.error = Some(told(&body)),
                b'G' => return Ok(answer),
                b'Z' => {
                    answer.status = body[0];
                    return Ok(answer);
                }
                _ => {}
            }
        }
    }

    /// Hangs up as a process does that is killed with something unread: without a word.
    pub fn vanish(self) {
        let stream = self.stream.into_inner();
        rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).expect("a socket");
    }

    /// Sends a simple query and takes all that comes of it.
    pub async fn ask(&mut self, sql: &str) -> Result<Answer, Gone> {
        self.send(&query(sql)).await?;
        self.answer().await
    }
}

/// The values of a DataRow.
pub fn values(body: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut values) = (&body[2..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        values.push(after[..length].to_vec());
        rest = &after[length..];
    }
    values
}

pub fn told(body: &[u8]) -> Told {
    let field = |tag: u8| {
        let text = body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[tag]));
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    };
    Told { code: field(b'C'), message: field(b'M') }
}
