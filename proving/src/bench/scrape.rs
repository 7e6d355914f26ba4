//! Asks for metrics as Prometheus does, over a connection that stays.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hugewise_testkit::tools::Failure;

/// No exporter takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to an exporter.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    request: String,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAccept: text/plain;version=0.0.4\r\n\r\n"
        );
        Ok(Self { stream: BufReader::new(stream), request })
    }

    /// One scrape; the connection stays open. Nothing is compressed on the way.
    pub(super) fn scrape(&mut self) -> Result<String, Failure> {
        self.stream.get_mut().write_all(self.request.as_bytes())?;
        let status = self.line()?;
        if !status.starts_with("HTTP/1.1 200") {
            return Err(format!("a scrape was answered with {status:?}").into());
        }
        let (mut length, mut chunked) = (None, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                Some(("content-length", value)) => length = Some(value.trim().parse()?),
                Some(("transfer-encoding", value)) => chunked = value.trim() == "chunked",
                Some(_) => {}
                None => break,
            }
        }
        let mut body = Vec::new();
        match length {
            Some(length) => self.read_exactly(length, &mut body)?,
            None if chunked => while self.chunk(&mut body)? > 0 {},
            None => return Err("an answer of unknown length".into()),
        }
        Ok(String::from_utf8(body)?)
    }

    fn chunk(&mut self, body: &mut Vec<u8>) -> Result<u64, Failure> {
        let length = u64::from_str_radix(&self.line()?, 16)?;
        self.read_exactly(length, body)?;
        self.line()?;
        Ok(length)
    }

    fn read_exactly(&mut self, length: u64, body: &mut Vec<u8>) -> Result<(), Failure> {
        let read = self.stream.by_ref().take(length).read_to_end(body)?;
        if u64::try_from(read) == Ok(length) {
            Ok(())
        } else {
            Err("an answer that ends early".into())
        }
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err("the exporter hung up".into());
        }
        Ok(line.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What a scrape makes of that answer, twice over one connection.
    fn scraped(answer: &'static str) -> [Result<String, Failure>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let exporter = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            for _ in 0..2 {
                let mut line = String::new();
                while stream.read_line(&mut line).unwrap_or(0) > 2 {
                    line.clear();
                }
                let _ = stream.get_mut().write_all(answer.as_bytes());
            }
        });
        let mut connection = Connection::open(address).unwrap();
        let scraped = [connection.scrape(), connection.scrape()];
        drop(connection);
        exporter.join().unwrap();
        scraped
    }

    #[test]
    fn answers_of_both_lengths_leave_the_connection_usable() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na \r\n2\r\n1\n\r\n0\r\n\r\n",
        ] {
            assert!(
                scraped(answer).iter().all(|text| text.as_ref().is_ok_and(|text| text == "a 1\n")),
                "{answer}"
            );
        }
        for answer in ["HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"]
        {
            assert!(scraped(answer)[0].is_err(), "{answer}");
        }
    }
}
