import { stripVTControlCharacters, styleText } from 'node:util'
import { cleanJson, cleanText } from '#kernel/base/json'

/**
 * Everything the CLI prints. Data goes to stdout, everything else to stderr; colours, spinners and progress bars
 * appear only on a terminal. Invariant: control characters in text from outside are escaped, and JSON spells its
 * member names as the admin API does.
 */

const GAP = '  '
const MIN_LAST_WIDTH = 20

/** Aligns columns. Only the last column is truncated, and only if a width is given. */
export function renderTable(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  width?: number,
): string[] {
  const cells = [headings, ...rows.map((row) => row.map(cleanText))]
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => lengthOf(row[column] ?? ''))))
  const used = widths.slice(0, -1).reduce((sum, each) => sum + each + GAP.length, 0)
  const available = width === undefined ? Number.POSITIVE_INFINITY : Math.max(MIN_LAST_WIDTH, width - used)
  return cells.map((row) => {
    const padded = row.map((cell, column) =>
      column === row.length - 1
        ? cut(cell, available)
        : cell.padEnd(cell.length + (widths[column] ?? 0) - lengthOf(cell)),
    )
    return padded.join(GAP).trimEnd()
  })
}

/** Aligns columns without headings, and indents them. */
export function renderList(rows: readonly (readonly string[])[]): string[] {
  const headings = (rows[0] ?? []).map(() => '')
  return renderTable(headings, rows)
    .slice(1)
    .map((line) => `  ${line}`)
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
}

function lengthOf(text: string): number {
  return stripVTControlCharacters(text).length
}

/** Returns one line for each fact that has a text. */
export function labelledLines(facts: readonly (readonly [string, string | null | undefined])[]): string[] {
  return facts.flatMap(([label, text]) => (text ? [`${label.padEnd(12)}${cleanText(text)}`] : []))
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function counted(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`
}

export interface TextStream {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

/**
 * `Value` where no declared member name has an upper-case letter, so that all commands spell names like `key_id`. Keys
 * of a `Record<string, …>` are data and not checked.
 */
type SnakeCase<Value> = Value extends { toJSON(): infer Json }
  ? { toJSON(): SnakeCase<Json> }
  : Value extends readonly (infer Item)[]
    ? readonly SnakeCase<Item>[]
    : Value extends object
      ? {
          [Name in keyof Value]: Name extends Lowercase<string & Name>
            ? SnakeCase<Value[Name]>
            : string extends Name
              ? Value[Name]
              : never
        }
      : Value

/** Respells the names of an object's own members: `durationMs` becomes `duration_ms`. */
export function snakeNames(record: object): Readonly<Record<string, unknown>> {
  const respell = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [respell(name), value]))
}

interface OutputOptions {
  readonly stdout: TextStream
  readonly stderr: TextStream
  readonly noColor: boolean
  /** Rewrites each line for people, so that commands in it can be pasted. */
  readonly phrase: (line: string) => string
}

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'] as const
const FRAME_MS = 100
const CLEAR_LINE = '\r\u001b[K'

const BAR_WIDTH = 30

function barOf(share: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * BAR_WIDTH)
  return `${'█'.repeat(full)}${'░'.repeat(BAR_WIDTH - full)}`
}

export class Output {
  readonly #stdout: TextStream
  readonly #stderr: TextStream
  readonly #noColor: boolean
  readonly #phrase: (line: string) => string
  /** A temporary line (spinner or bar) is on the terminal. */
  #isBusy = false

  constructor({ stdout, stderr, noColor, phrase }: OutputOptions) {
    this.#stdout = stdout
    this.#stderr = stderr
    this.#noColor = noColor
    this.#phrase = phrase
  }

  data(line: string): void {
    this.#stdout.write(`${line}\n`)
  }

  /** A line of data for people: commands in it are written as they are typed here. */
  sentence(line: string): void {
    this.data(this.#phrase(line))
  }

  /** Prints one line of JSON. The names of its members are spelled as the admin API spells them. */
  json<Value>(value: Value & SnakeCase<Value>): void {
    this.data(cleanJson(value))
  }

  note(line: string): void {
    this.#stderr.write(`${this.#isBusy ? CLEAR_LINE : ''}${this.#phrase(line)}\n`)
  }

  done(line: string): void {
    this.note(`${this.#paint(this.#stderr, 'green', '✓')} ${line}`)
  }

  warn(line: string): void {
    this.note(`${this.#paint(this.#stderr, 'yellow', '!')} ${line}`)
  }

  error(line: string): void {
    this.note(`${this.#paint(this.#stderr, 'red', '✗')} ${line}`)
  }

  /** Colours a part of a `data` line. */
  style(style: Style, text: string): string {
    return this.#paint(this.#stdout, style, text)
  }

  get isTerminal(): boolean {
    return this.#stdout.isTTY === true
  }

  /** Width available for data; `undefined` for a pipe or file, where nothing is cut. */
  get width(): number | undefined {
    return this.isTerminal ? this.#stdout.columns : undefined
  }

  /** Shows a spinner with the elapsed seconds while `work` runs, on a terminal only. */
  async during<T>(text: string, work: Promise<T>): Promise<T> {
    if (this.#stderr.isTTY !== true) return await work
    let frame = 0
    const timer = setInterval(() => {
      const mark = FRAMES[frame % FRAMES.length] ?? ''
      frame += 1
      const seconds = Math.floor((frame * FRAME_MS) / 1000)
      const elapsed = seconds === 0 ? '' : ` ${seconds} s`
      this.#isBusy = true
      this.#stderr.write(`${CLEAR_LINE}${this.#paint(this.#stderr, 'cyan', mark)} ${text}${elapsed}`)
    }, FRAME_MS)
    try {
      return await work
    } finally {
      clearInterval(timer)
      this.#isBusy = false
      if (frame > 0) this.#stderr.write(CLEAR_LINE)
    }
  }

  /** Progress of long work: a bar on a terminal, elsewhere a line for each tenth. `share` is between 0 and 1. */
  progress() {
    const stream = this.#stderr
    const isTerminal = stream.isTTY === true
    let shown = ''
    return {
      show: (share: number, text: string): void => {
        const tenth = Math.floor(share * 10)
        const line = isTerminal
          ? `${CLEAR_LINE}${this.#paint(stream, 'cyan', barOf(share))} ${text}`
          : `${tenth * 10} % ${text}\n`
        const progress = isTerminal ? line : String(tenth)
        if (progress === shown) return
        shown = progress
        stream.write(line)
      },
      end: (): void => {
        if (isTerminal && shown !== '') stream.write(CLEAR_LINE)
      },
    }
  }

  #paint(stream: TextStream, style: Style, text: string): string {
    if (this.#noColor || stream.isTTY !== true) return text
    return styleText(style, text, { validateStream: false })
  }
}
