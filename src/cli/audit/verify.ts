import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type CommandContext, defineCommand, EXIT, UsageError } from '#cli/command'
import { counted, snakeNames } from '#cli/output'
import { cleanText, isRecord, parseJson } from '#kernel/base/json'
import type { LeafContent, LeafEvent } from '#receipts/format'
import { BadReceipt, type ProvenCall } from '#receipts/verify'
import { type VerifiedFile, verifyReceiptFile } from './verify-file.ts'

/**
 * `collet verify`: checks a receipt file without a store, a server or a network. Invariant: the exit code is 0 only if every byte of the
 * file is as it was signed, and the key is the one that the user named.
 */

const MAX_SHOWN = 20

const verify = defineCommand<'key' | 'after' | 'quiet'>({
  name: 'verify',
  summary: 'Checks a file of receipts offline: that it is unchanged, and which calls it proves.',
  details: [
    'Exit code 0: the file is unchanged and was signed by the key of --key. 1: it was changed, or another key signed it. 2: no key was named, so it is not known whose file it is.',
    'The file proves what the server recorded. It does not prove that the server told the truth, or that it has recorded everything. Keep a receipt file elsewhere and name it with --after to detect a journal that was rewritten since.',
  ],
  positionals: [
    { name: 'FILE', help: 'A file that collet journal receipt or collet export receipts wrote.' },
  ],
  options: {
    key: {
      value: 'KEY',
      help: 'The key of the server: its id, its public key, or a file of keys (/.well-known/collet-receipt-keys.json). Get it from someone you trust.',
    },
    after: {
      value: 'FILE',
      help: 'An earlier receipt file of the server: also check that the journal still contains what that file proved.',
    },
    quiet: { help: 'Print only whether the file is valid.' },
  },
  examples: [
    'collet verify receipt.jsonl --key keys.json',
    'collet verify receipt.jsonl --key 3q2-7wWn0pX9mYtE1vKd5LhJ',
    'collet verify new.jsonl --after last-year.jsonl --key keys.json',
  ],
  async run(args, context) {
    const { output, json } = context
    const [name = ''] = args.positionals
    const isQuiet = args.flag('quiet')
    const shown: ProvenCall[] = []
    const checked: Checked = { problems: [], notes: [] }
    let file: VerifiedFile | undefined
    let calls = 0
    try {
      const keep = isQuiet ? 0 : json ? Number.POSITIVE_INFINITY : MAX_SHOWN
      file = await verifyReceiptFile(readable(name, context), (call) => {
        calls += 1
        if (shown.length < keep) shown.push(call)
      })
      await checkKey(file, args.text('key'), context, checked)
      await checkEarlier(file, args.text('after'), context, checked)
    } catch (error) {
      if (!(error instanceof BadReceipt)) throw error
      checked.problems.push(error.message)
    }
    const isValid = file !== undefined && checked.problems.length === 0
    const isPinned = args.text('key') !== undefined
    if (json) {
      output.json({
        valid: isValid,
        key_named: isPinned,
        problems: checked.problems,
        notes: checked.notes,
        ...(file && { issuer: file.header.issuer, made_at: file.header.made_at, key: file.header.key }),
        calls: isValid ? shown.map(callJson) : [],
      })
    } else {
      for (const problem of checked.problems) output.data(cleanText(`✗ ${problem}`))
      if (file !== undefined && isValid) {
        for (const line of describeFile(file, calls)) output.data(line)
        for (const call of shown) for (const line of describeCall(call)) output.data(line)
        if (!isQuiet && calls > shown.length)
          output.data(`  and ${counted(calls - shown.length, 'more call')} (--json prints all)`)
        for (const note of checked.notes) output.data(cleanText(note))
        if (!isQuiet) for (const limit of LIMITS) output.data(`  Not proven: ${limit}`)
      }
    }
    if (!isValid) return EXIT.toolFailed
    return isPinned ? EXIT.ok : EXIT.usage
  },
})

interface Checked {
  readonly problems: string[]
  readonly notes: string[]
}

const LIMITS = [
  'that the server recorded the truth, and every call.',
  'that the journal was not rewritten before this file was made, unless --after names an earlier file.',
  'anything about other calls: the file contains none of them.',
]

async function* readable(name: string, { workingFolder }: CommandContext): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of createReadStream(resolve(workingFolder, name), { highWaterMark: 1 << 20 }))
      yield chunk
  } catch (error) {
    if (error instanceof Error && 'code' in error)
      throw new UsageError(`${name} cannot be read (${String(error.code)}).`)
    throw error
  }
}

interface NamedKey {
  readonly retiredAt: string | undefined
}

async function checkKey(
  { header: { key, made_at: madeAt } }: VerifiedFile,
  named: string | undefined,
  context: CommandContext,
  { problems, notes }: Checked,
): Promise<void> {
  if (named === undefined) {
    notes.push(
      `  Not proven: who signed this. The file names the key ${key.id}. Compare it with the key that the server's operator publishes, and pass it with --key.`,
    )
    return
  }
  const found: NamedKey | undefined =
    named === key.id || named === key.public_key
      ? { retiredAt: undefined }
      : await keyInFile(named, key.public_key, context)
  if (found === undefined) problems.push(`Another key signed this file: ${key.id}.`)
  else if (found.retiredAt !== undefined && madeAt > found.retiredAt)
    problems.push(`The key ${key.id} signed this file after it was replaced at ${found.retiredAt}.`)
}

/** A text that is no file names a key that is not this one. */
async function keyInFile(
  name: string,
  publicKey: string,
  { workingFolder }: CommandContext,
): Promise<NamedKey | undefined> {
  if (/^[\w-]{24}$|^[\w-]{43}$/.test(name)) return undefined
  let text: string
  try {
    text = await readFile(resolve(workingFolder, name), 'utf8')
  } catch {
    throw new UsageError(`--key expects the id of a key, a public key, or a file of keys; got "${name}".`)
  }
  const value = parseJson(text)
  const keys: unknown = isRecord(value) ? value.keys : value
  if (!Array.isArray(keys)) throw new UsageError(`${name} is not a file of keys.`)
  for (const key of keys) {
    if (!isRecord(key) || key.public_key !== publicKey) continue
    return { retiredAt: typeof key.retired_at === 'string' ? key.retired_at : undefined }
  }
  return undefined
}

/** Compares the blocks of two files, and follows the links from the newer to the older. */
async function checkEarlier(
  { lines, header }: VerifiedFile,
  name: string | undefined,
  context: CommandContext,
  { problems, notes }: Checked,
): Promise<void> {
  if (name === undefined) return
  const earlier = await verifyReceiptFile(readable(name, context))
  if (earlier.header.key.public_key !== header.key.public_key)
    notes.push(`  Note: ${name} was signed by another key, ${earlier.header.key.id}.`)
  let same = 0
  for (const block of earlier.lines.blocks) {
    const found = lines.hashOf(block)
    if (found === undefined) continue
    if (found === earlier.lines.hashOf(block)) same += 1
    else
      problems.push(
        `The journal was rewritten: block ${block.block} of writer ${block.writer} differs from ${name}.`,
      )
  }
  const writers = new Set(earlier.lines.blocks.map(({ writer }) => writer))
  const isAbout = lines.blocks.some(({ writer }) => writers.has(writer))
  if (same > 0 && problems.length === 0)
    notes.push(`✓ The journal still contains what ${name} proved, made at ${earlier.header.made_at}.`)
  else if (problems.length === 0)
    problems.push(
      isAbout
        ? `The files have no block in common. Make the new one with: collet journal receipt RECORD --after ${name}`
        : `The files are about the journals of different processes, so they cannot be compared.`,
    )
}

function describeFile({ header, lines }: VerifiedFile, calls: number): readonly string[] {
  const { issuer, made_at: at, key } = header
  return [
    cleanText(
      `✓ Unchanged: ${counted(calls, 'call')}, in ${counted(lines.blocks.length, 'block')} of the journal.`,
    ),
    cleanText(`  made by ${issuer} at ${at}, signed with the key ${key.id}`),
  ]
}

function describeCall({ record, facts, contents }: ProvenCall): readonly string[] {
  const claim = facts.find(({ definition_hash: hash }) => hash !== undefined)
  const events = facts.flatMap((fact) => fact.events.map((event) => ({ event, fact })))
  const subject = events.find(({ event }) => 'tool' in event)?.event
  return [
    `Call ${record}`,
    ...linesOf([
      ['tool', subject?.tool],
      ['definition', claim?.definition_hash],
      ['caller', subject?.principal],
      ['tenant', subject?.tenant],
      ['call id', claim?.call_id],
      ['user', claim?.user_id],
      ['input', contents.input?.json ?? digestOf(claim?.input)],
      [
        'outcome',
        contents.outcome?.json ?? digestOf(facts.flatMap(({ outcomes = [] }) => outcomes).at(-1)?.digest),
      ],
    ]),
    ...events.map(({ event, fact }) =>
      cleanText(`  ${event.at}  ${event.type}${factsOf(event)}  (group ${fact.group})`),
    ),
  ]
}

function digestOf(digest: string | undefined): string | undefined {
  return digest === undefined ? undefined : `${digest} (salted digest)`
}

function linesOf(pairs: readonly (readonly [string, unknown])[]): readonly string[] {
  return pairs.flatMap(([name, value]) =>
    value === undefined ? [] : [cleanText(`  ${name.padEnd(10)}  ${String(value)}`)],
  )
}

/** Members that stand elsewhere in the text. */
const SHOWN: ReadonlySet<string> = new Set([
  'type',
  'at',
  'record',
  'tenant',
  'principal',
  'tool',
  'run',
  'sequence',
])

function factsOf(event: LeafEvent): string {
  const rest = Object.entries(event).filter(([name]) => !SHOWN.has(name))
  return rest
    .map(([name, value]) => `  ${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join('')
}

function callJson({ record, facts, contents }: ProvenCall) {
  const respell = ({ events, ...fact }: LeafContent) => ({
    ...fact,
    events: events.map((event) => snakeNames(event)),
  })
  return {
    record,
    facts: facts.map(respell),
    input: contents.input?.json ?? null,
    outcome: contents.outcome?.json ?? null,
  }
}

export const COMMANDS = [verify]
