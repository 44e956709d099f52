const REDACTED = '[redacted]'

/** A credential that prints as `[redacted]` everywhere; only `reveal()` gives the text. */
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

/** Member names whose values are taken for credentials where nothing else says so: in options of sources. */
const SECRET_NAME =
  /pass(word|wd|phrase)?$|secret|token|api[-_]?key|private[-_]?key|credential|authorization|cookie|bearer|\bpin\b|\bcvv\b|otp$/i

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name)
}
