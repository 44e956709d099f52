/** One thing to say about a document. */
export interface DocumentFinding {
  /** JSON Pointer into the document; empty for the whole of it. */
  readonly path: string
  /** Row of the requirements ledger: `OTS-07`. */
  readonly rule: string
  /** A document with errors is not loaded. */
  readonly level: 'error' | 'warning'
  readonly message: string
  /** Where JSON stops being JSON; only for text that does not parse (OTS-01). */
  readonly position?: TextPosition
}

export interface TextPosition {
  /** In UTF-16 code units, from 0. */
  readonly offset: number
  /** From 1. */
  readonly line: number
  /** From 1. */
  readonly column: number
}

/**
 * `strict` for documents we author or serve; `lenient` for documents of others, where some rules become
 * warnings with a stated default.
 */
export type DocumentMode = 'strict' | 'lenient'

/** A list of a million mistakes helps nobody and would cost more memory than the document (OTS-26). */
const MOST_FINDINGS = 100_000

/** Collects findings; the rest of the check goes on, so that all of them are seen at once. */
export class FindingList {
  readonly mode: DocumentMode
  readonly #found: DocumentFinding[] = []
  #leftOut: 'none' | 'warnings' | 'errors' = 'none'
  #errors = 0

  constructor(mode: DocumentMode) {
    this.mode = mode
  }

  error(path: string, rule: string, message: string): void {
    this.add({ path, rule, level: 'error', message })
  }

  warn(path: string, rule: string, message: string): void {
    this.add({ path, rule, level: 'warning', message })
  }

  /** A rule that a lenient reader repairs with a default (L). */
  tolerate(path: string, rule: string, message: string): void {
    this.add({ path, rule, level: this.mode === 'strict' ? 'error' : 'warning', message })
  }

  add(finding: DocumentFinding): void {
    if (finding.level === 'error') this.#errors += 1
    if (this.#found.length < MOST_FINDINGS) this.#found.push(finding)
    else if (finding.level === 'error') this.#leftOut = 'errors'
    else if (this.#leftOut === 'none') this.#leftOut = 'warnings'
  }

  get hasErrors(): boolean {
    return this.#errors > 0
  }

  all(): readonly DocumentFinding[] {
    if (this.#leftOut === 'none') return this.#found
    const level = this.#leftOut === 'errors' ? 'error' : 'warning'
    const message = `There are more than ${MOST_FINDINGS} findings; the others are left out.`
    return [...this.#found, { path: '', rule: 'OTS-26', level, message }]
  }
}

const MOST_SHOWN = 20

/** Thrown by `load` and `dereference`: carries every finding, warnings too (OTS-25). */
export class OpenToolDocumentError extends Error {
  override readonly name = 'OpenToolDocumentError'
  readonly findings: readonly DocumentFinding[]

  constructor(findings: readonly DocumentFinding[]) {
    const errors = findings.filter(({ level }) => level === 'error')
    const lines = errors
      .slice(0, MOST_SHOWN)
      .map(({ path, rule, message }) => `  ${path || '(document)'}: ${message} (${rule})`)
    const more = errors.length > MOST_SHOWN ? [`  and ${errors.length - MOST_SHOWN} more`] : []
    const count = errors.length === 1 ? '1 error' : `${errors.length} errors`
    super([`The OpenTool document has ${count}:`, ...lines, ...more].join('\n'))
    this.findings = findings
  }
}
