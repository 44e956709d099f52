/**
 * Credentials in memory, and member names that usually stand for credentials. Every token, key and password is a `Secret` from
 * the moment it is read. A secret never prints its text.
 */

const REDACTED = '[redacted]'

/** Prints as `[redacted]` everywhere; only `reveal()` returns the text. */
export class Secret {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  reveal(): string {
    return this.#text
  }

  toString(): string {
    return REDACTED
  }

  toJSON(): string {
    return REDACTED
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return REDACTED
  }
}

/** Member names whose values are treated as credentials in a source's options. */
const SECRET_NAME =
  /pass(word|wd|phrase)?$|secret|token|api[-_]?key|private[-_]?key|credential|authorization|cookie|bearer|\bpin\b|\bcvv\b|otp$/i

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name)
}
