//! Cuts Rust into words, strings, brackets and signs; comments stay, for they cite requirements.

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A line comment that documents nothing, without its slashes.
    Comment(String),
    Word(String),
    Text(String),
    Sign(char),
    Open(char),
    Close,
}

pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) line: usize,
}

pub(super) fn tokenize(text: &str) -> Vec<Placed> {
    let chars: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0, line: 1 };
    let mut tokens = Vec::new();
    while lexer.at < chars.len() {
        let line = lexer.line;
        tokens.extend(lexer.token().map(|token| Placed { token, line }));
    }
    tokens
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
    line: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn next(&mut self) -> char {
        let next = self.peek(0);
        self.line += usize::from(next == '\n');
        self.at += 1;
        next
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while self.at < self.chars.len() && wanted(self.peek(0)) {
            taken.push(self.next());
        }
        taken
    }

    fn token(&mut self) -> Option<Token> {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => {
                let comment = self.take_while(|c| c != '\n');
                let text = comment.trim_start_matches("//");
                // `///` and `//!` are attributes, not comments.
                let plain = comment.len() == text.len() + 2 && !text.starts_with(['/', '!']);
                plain.then(|| Token::Comment(text.trim().to_owned()))
            }
            ('/', '*') => {
                self.block_comment();
                None
            }
            ('"', _) => Some(self.string()),
            ('\'', _) => {
                self.quote();
                None
            }
            (c, _) if c.is_alphabetic() || c == '_' => Some(self.word()),
            (c, _) if c.is_ascii_digit() => {
                self.take_while(|c| c.is_alphanumeric() || c == '_');
                Some(Token::Sign('0'))
            }
            (c, _) => {
                self.next();
                match c {
                    '(' | '[' | '{' => Some(Token::Open(c)),
                    ')' | ']' | '}' => Some(Token::Close),
                    _ if c.is_whitespace() => None,
                    _ => Some(Token::Sign(c)),
                }
            }
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.next();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                return;
            }
        }
    }

    /// A character, or a lifetime.
    fn quote(&mut self) {
        self.next();
        if self.peek(0) == '\\' {
            self.at += 2;
            self.take_while(|c| c != '\'');
            self.next();
        } else if self.peek(1) == '\'' {
            self.next();
            self.next();
        }
    }

    fn word(&mut self) -> Token {
        let word = self.take_while(|c| c.is_alphanumeric() || c == '_');
        let raw = matches!(word.as_str(), "r" | "br" | "cr");
        match self.peek(0) {
            '"' if raw => self.raw_string(),
            '"' if matches!(word.as_str(), "b" | "c") => self.string(),
            '\'' if word == "b" => {
                self.quote();
                Token::Sign('0')
            }
            '#' if raw && matches!(self.peek(1), '#' | '"') => self.raw_string(),
            '#' if word == "r" && (self.peek(1).is_alphabetic() || self.peek(1) == '_') => {
                self.next();
                Token::Word(self.take_while(|c| c.is_alphanumeric() || c == '_'))
            }
            _ => Token::Word(word),
        }
    }

    fn string(&mut self) -> Token {
        self.next();
        let mut text = String::new();
        while self.at < self.chars.len() {
            match self.next() {
                '"' => break,
                '\\' => text.push(self.next()),
                c => text.push(c),
            }
        }
        Token::Text(text)
    }

    fn raw_string(&mut self) -> Token {
        let hashes = self.take_while(|c| c == '#').len();
        self.next();
        let mut text = String::new();
        while self.at < self.chars.len() {
            if self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#') {
                self.at += 1 + hashes;
                break;
            }
            text.push(self.next());
        }
        Token::Text(text)
    }
}
