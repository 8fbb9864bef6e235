package counting

import (
	"bufio"
	"errors"
	"io"
	"unicode"
	"unicode/utf8"
)

// MaxWord bounds the bytes of a word.
const MaxWord = 128

// Words calls yield for every word of a text. The slice is valid until yield returns.
func Words(text io.Reader, yield func(word []byte)) error {
	r := bufio.NewReaderSize(text, 64<<10)
	word := make([]byte, 0, MaxWord+utf8.UTFMax) // never grows: longer runs are dropped
	for {
		c, _, err := r.ReadRune()
		if err == nil && isWord(c) {
			if len(word) <= MaxWord {
				word = utf8.AppendRune(word, unicode.ToLower(c))
			}
			continue
		}
		if len(word) > 0 && len(word) <= MaxWord && !startsWithDigit(word) {
			yield(word)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		word = word[:0]
	}
}

func startsWithDigit(word []byte) bool {
	c, _ := utf8.DecodeRune(word)
	return unicode.IsDigit(c)
}

func isWord(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) }
