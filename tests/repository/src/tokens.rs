//! Tokenizer of Rust: words, strings, brackets and signs. Comments are kept, because they cite requirements.

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SourceToken {
    /// A line comment that is not documentation, without its slashes.
    Comment(String),
    Ident(String),
    StringLiteral(String),
    Punct(char),
    Open(char),
    Close,
}

pub(super) struct SpannedToken {
    pub(super) token: SourceToken,
    pub(super) line: usize,
}

pub(super) fn tokenize(text: &str) -> Vec<SpannedToken> {
    let chars: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0, line: 1 };
    let mut tokens = Vec::new();
    while lexer.at < chars.len() {
        let line = lexer.line;
        tokens.extend(lexer.token().map(|token| SpannedToken { token, line }));
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

    fn bump(&mut self) -> char {
        let next = self.peek(0);
        self.line += usize::from(next == '\n');
        self.at += 1;
        next
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while self.at < self.chars.len() && wanted(self.peek(0)) {
            taken.push(self.bump());
        }
        taken
    }

    fn token(&mut self) -> Option<SourceToken> {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => {
                let comment = self.take_while(|c| c != '\n');
                let text = comment.trim_start_matches("//");
                // `///` and `//!` are attributes, not comments.
                let plain = comment.len() == text.len() + 2 && !text.starts_with(['/', '!']);
                plain.then(|| SourceToken::Comment(text.trim().to_owned()))
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
                Some(SourceToken::Punct('0'))
            }
            (c, _) => {
                self.bump();
                match c {
                    '(' | '[' | '{' => Some(SourceToken::Open(c)),
                    ')' | ']' | '}' => Some(SourceToken::Close),
                    _ if c.is_whitespace() => None,
                    _ => Some(SourceToken::Punct(c)),
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
                    self.bump();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips a character literal or a lifetime.
    fn quote(&mut self) {
        self.bump();
        if self.peek(0) == '\\' {
            self.at += 2;
            self.take_while(|c| c != '\'');
            self.bump();
        } else if self.peek(1) == '\'' {
            self.bump();
            self.bump();
        }
    }

    fn word(&mut self) -> SourceToken {
        let word = self.take_while(|c| c.is_alphanumeric() || c == '_');
        let raw = matches!(word.as_str(), "r" | "br" | "cr");
        match self.peek(0) {
            '"' if raw => self.raw_string(),
            '"' if matches!(word.as_str(), "b" | "c") => self.string(),
            '\'' if word == "b" => {
                self.quote();
                SourceToken::Punct('0')
            }
            '#' if raw && matches!(self.peek(1), '#' | '"') => self.raw_string(),
            '#' if word == "r" && (self.peek(1).is_alphabetic() || self.peek(1) == '_') => {
                self.bump();
                SourceToken::Ident(self.take_while(|c| c.is_alphanumeric() || c == '_'))
            }
            _ => SourceToken::Ident(word),
        }
    }

    fn string(&mut self) -> SourceToken {
        self.bump();
        let mut text = String::new();
        while self.at < self.chars.len() {
            match self.bump() {
                '"' => break,
                '\\' => text.push(self.bump()),
                c => text.push(c),
            }
        }
        SourceToken::StringLiteral(text)
    }

    fn raw_string(&mut self) -> SourceToken {
        let hashes = self.take_while(|c| c == '#').len();
        self.bump();
        let mut text = String::new();
        while self.at < self.chars.len() {
            if self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#') {
                self.at += 1 + hashes;
                break;
            }
            text.push(self.bump());
        }
        SourceToken::StringLiteral(text)
    }
}
