//! Bytes that came in and have not been dealt with.
//!
//! A plain vector with two ends. It is zeroed once when it grows, so that reads go straight into it without `unsafe`,
//! and moves what is left to its front when its end is reached.

/// Bytes between a socket and whoever reads them.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// What is there.
    #[inline]
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// How much is there.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// True if nothing is there.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// How much it can hold without growing.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the first `n` bytes.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.start += n;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room to read into, at least `least` bytes of it: moves or grows what is there if it must.
    pub fn space(&mut self, least: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < least {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            if self.bytes.len() - self.end < least {
                self.bytes.resize(self.end + least, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// `n` bytes have been read into [`Buffer::space`].
    #[inline]
    pub fn advance(&mut self, n: usize) {
        self.end += n;
        debug_assert!(self.end <= self.bytes.len());
    }

    /// Takes the first `n` bytes out.
    pub fn take(&mut self, n: usize) -> Vec<u8> {
        let taken = self.filled()[..n].to_vec();
        self.consume(n);
        taken
    }

    /// Cuts `n` bytes out at `at`.
    pub fn cut(&mut self, at: usize, n: usize) {
        let from = self.start + at;
        self.bytes.copy_within(from + n..self.end, from);
        self.end -= n;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Puts bytes in at `at`.
    pub fn insert(&mut self, at: usize, bytes: &[u8]) {
        self.space(bytes.len());
        let from = self.start + at;
        self.bytes.copy_within(from..self.end, from + bytes.len());
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let space = self.space(bytes.len());
        space[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }

    /// Gives memory back beyond `keep` bytes, if nothing is held.
    pub fn shrink(&mut self, keep: usize) {
        if self.is_empty() && self.bytes.len() > keep {
            self.bytes = Vec::new();
            (self.start, self.end) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_can_be_cut_out_and_put_in_anywhere() {
        let mut buffer = Buffer::default();
        buffer.push(b"abcdef");
        buffer.consume(1);
        buffer.cut(1, 2);
        assert_eq!(buffer.filled(), b"bef");
        buffer.insert(1, b"123");
        assert_eq!(buffer.filled(), b"b123ef");
        buffer.insert(6, b"!");
        assert_eq!(buffer.take(7), b"b123ef!");
        assert!(buffer.is_empty());
    }

    #[test]
    fn what_is_left_moves_to_the_front_when_room_is_needed() {
        let mut buffer = Buffer::default();
        buffer.push(&[7; 100]);
        buffer.consume(90);
        assert!(buffer.space(80).len() >= 80);
        assert_eq!(buffer.capacity(), 100);
        assert_eq!(buffer.filled(), [7; 10]);
    }
}
