// UTF-8 encoding and decoding: QuickJS has no `TextDecoder`.

/** The bytes of a text. Lone surrogates become U+FFFD. */
export function encodeUtf8(text) {
  text = text.toWellFormed();
  const bytes = new Uint8Array(text.length * 3);
  let end = 0;
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at);
    if (code < 0x80) {
      bytes[end++] = code;
      continue;
    }
    if (code >= 0xd800 && code < 0xdc00) {
      code = 0x10000 + ((code - 0xd800) << 10) + (text.charCodeAt(++at) - 0xdc00);
    }
    if (code < 0x800) {
      bytes[end++] = 0xc0 | (code >> 6);
    } else {
      if (code < 0x10000) {
        bytes[end++] = 0xe0 | (code >> 12);
      } else {
        bytes[end++] = 0xf0 | (code >> 18);
        bytes[end++] = 0x80 | ((code >> 12) & 0x3f);
      }
      bytes[end++] = 0x80 | ((code >> 6) & 0x3f);
    }
    bytes[end++] = 0x80 | (code & 0x3f);
  }
  return bytes.subarray(0, end);
}

/** The text of some bytes. Invalid UTF-8 becomes U+FFFD. */
export function decodeUtf8(bytes) {
  const decoder = new Utf8Decoder();
  return decoder.decode(bytes) + decoder.end();
}

/** Decodes a stream whose pieces may be cut anywhere. */
export class Utf8Decoder {
  constructor() {
    this.code = 0;
    this.missing = 0;
    this.low = 0x80;
    this.high = 0xbf;
  }

  /** The text of the next piece. */
  decode(bytes) {
    let text = "";
    let units = [];
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at];
      if (this.missing > 0) {
        if (byte < this.low || byte > this.high) {
          // The character is incomplete; this byte may begin another one.
          this.missing = 0;
          units.push(0xfffd);
          at--;
        } else {
          this.low = 0x80;
          this.high = 0xbf;
          this.code = (this.code << 6) | (byte & 0x3f);
          if (--this.missing === 0) {
            if (this.code < 0x10000) {
              units.push(this.code);
            } else {
              units.push(0xd7c0 + (this.code >> 10), 0xdc00 | (this.code & 0x3ff));
            }
          }
        }
      } else if (byte < 0x80) {
        units.push(byte);
      } else {
        this.begin(byte, units);
      }
      if (units.length > 4096) {
        text += String.fromCharCode.apply(null, units);
        units = [];
      }
    }
    return text + String.fromCharCode.apply(null, units);
  }

  /** Ends the stream: returns U+FFFD if the last character is incomplete, else an empty text. */
  end() {
    const broken = this.missing > 0;
    this.missing = 0;
    return broken ? "\ufffd" : "";
  }

  begin(byte, units) {
    this.low = 0x80;
    this.high = 0xbf;
    if (byte >= 0xc2 && byte < 0xe0) {
      this.missing = 1;
      this.code = byte & 0x1f;
    } else if (byte >= 0xe0 && byte < 0xf0) {
      this.missing = 2;
      this.code = byte & 0x0f;
      if (byte === 0xe0) this.low = 0xa0;
      if (byte === 0xed) this.high = 0x9f;
    } else if (byte >= 0xf0 && byte < 0xf5) {
      this.missing = 3;
      this.code = byte & 0x07;
      if (byte === 0xf0) this.low = 0x90;
      if (byte === 0xf4) this.high = 0x8f;
    } else {
      units.push(0xfffd);
    }
  }
}
