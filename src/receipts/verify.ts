import {
  type BlockStatement,
  blockBytes,
  type CallReceipt,
  FORMAT,
  fromBase64Url,
  HASH_BYTES,
  KEY_ID_LENGTH,
  keyBytes,
  type LeafContent,
  leafBytes,
  nodeBytes,
  type OpenedContents,
  type ProvenLeaf,
  type ReceiptHeader,
  saltedBytes,
  toBase64Url,
} from './format.ts'

/**
 * Verifies the lines of a receipt file: every proof from its call to the root of its block, the links between blocks, and opened
 * inputs and outcomes. `collet verify` and the page for receipts use it. It yields bytes and receives their SHA-256, so the same code
 * runs with Node's hashes and with those of a browser. The caller checks the signature over the lines (`signedText`).
 */

/** Work that yields bytes to hash. */
export type Hashed<Result> = Generator<Uint8Array<ArrayBuffer>, Result, Uint8Array>

/** Thrown for a file that proves nothing. The message is for people. */
export class BadReceipt extends Error {
  override readonly name = 'BadReceipt'
}

/** A call whose proofs are valid. */
export interface ProvenCall {
  readonly record: string
  /** What was recorded about the call, oldest first. */
  readonly facts: readonly LeafContent[]
  readonly contents: OpenedContents
}

/** The lines of a file between its header and its signature. */
export class ReceiptLines {
  #header: ReceiptHeader | undefined
  /** Hashes of statements, by writer and block. */
  readonly #hashes = new Map<string, string>()
  readonly #roots = new Map<string, KnownBlock>()
  /** Number of nodes that are kept. */
  #kept = 0
  calls = 0

  get header(): ReceiptHeader {
    if (this.#header === undefined) throw new BadReceipt('The file has no header: it is not a receipt file.')
    return this.#header
  }

  /** The statements of the file's blocks, in the order of their chains. */
  get blocks(): readonly BlockStatement[] {
    return [...this.#roots.values()]
      .map(({ statement }) => statement)
      .toSorted((one, other) =>
        one.writer === other.writer ? one.block - other.block : one.writer < other.writer ? -1 : 1,
      )
  }

  hashOf({ writer, block }: Pick<BlockStatement, 'writer' | 'block'>): string | undefined {
    return this.#hashes.get(nameOf(writer, block))
  }

  /** Checks one line; returns the call that it proves. */
  *take(line: string): Hashed<ProvenCall | undefined> {
    const value = parse(line)
    if (this.#header === undefined) {
      yield* this.#takeHeader(value)
      return undefined
    }
    if (isObject(value.block)) yield* this.#takeBlock(value.block, line)
    else if (isObject(value.call)) return yield* this.#takeCall(value.call)
    else throw new BadReceipt('A line of the file is neither a block nor a call.')
    return undefined
  }

  *#takeHeader(value: Readonly<Record<string, unknown>>): Hashed<void> {
    if (value.collet_receipts !== FORMAT)
      throw new BadReceipt('The file is not a receipt file, or was made by a newer version of Collet.')
    const { issuer, made_at, key } = value
    if (!isText(issuer) || !isText(made_at) || !isObject(key) || !isText(key.id) || !isText(key.public_key))
      throw new BadReceipt('The header of the file is incomplete.')
    const id = toBase64Url(yield keyBytes(key.public_key)).slice(0, KEY_ID_LENGTH)
    if (id !== key.id) throw new BadReceipt('The id of the key in the header is not that of the key.')
    const { public_key } = key
    this.#header = { collet_receipts: FORMAT, issuer, made_at, key: { id, public_key } }
  }

  *#takeBlock(value: Readonly<Record<string, unknown>>, line: string): Hashed<void> {
    const { writer, block, first_group, last_group, made_at, depth, root, link, before } = value
    const rootBytes = isText(root) ? fromBase64Url(root) : undefined
    if (
      ![writer, made_at, link, before].every(isText) ||
      ![block, first_group, last_group, depth].every(isCount) ||
      Number(depth) > MAX_DEPTH ||
      rootBytes?.length !== HASH_BYTES
    )
      throw new BadReceipt('A block of the file is incomplete.')
    const text = line.slice('{"block":'.length, -1)
    const statement: BlockStatement = JSON.parse(text)
    const name = nameOf(statement.writer, statement.block)
    const hash = toBase64Url(yield blockBytes(text))
    if ((this.#hashes.get(name) ?? hash) !== hash) throw new BadReceipt(`Block ${name} is in the file twice.`)
    this.#hashes.set(name, hash)
    this.#roots.set(name, { statement, proven: new Map([[ROOT, rootBytes]]) })
    const next = this.#roots.get(nameOf(statement.writer, statement.block + 1))
    this.#checkBefore(statement)
    if (next !== undefined) this.#checkBefore(next.statement)
  }

  /** Two blocks in a row must be linked. */
  #checkBefore({ writer, block, before, first_group }: BlockStatement): void {
    const previous = this.#roots.get(nameOf(writer, block - 1))?.statement
    if (previous === undefined) return
    if (this.hashOf(previous) !== before || previous.last_group + 1 !== first_group)
      throw new BadReceipt(`Block ${block} of writer ${writer} does not follow the block before it.`)
  }

  *#takeCall(value: Readonly<Record<string, unknown>>): Hashed<ProvenCall> {
    const { record, leaves } = value
    if (!isText(record) || !Array.isArray(leaves) || leaves.length === 0)
      throw new BadReceipt('A call of the file has no proof.')
    const facts: LeafContent[] = []
    for (const leaf of leaves) facts.push(yield* this.#takeLeaf(record, readLeaf(leaf)))
    const contents = readContents(value)
    yield* checkContents(contents, facts)
    this.calls += 1
    const sorted = facts.toSorted((one, other) => compare(one.committed_at, other.committed_at))
    return { record, facts: sorted, contents }
  }

  *#takeLeaf(record: string, { writer, block, slot, salt, path, text }: ProvenLeaf): Hashed<LeafContent> {
    const found = this.#roots.get(nameOf(writer, block))
    if (found === undefined) throw new BadReceipt(`Block ${block} of writer ${writer} is not in the file.`)
    const { statement } = found
    const [saltBytes, siblings] = [fromBase64Url(salt), fromBase64Url(path)]
    if (
      saltBytes === undefined ||
      siblings?.length !== statement.depth * HASH_BYTES ||
      slot >= 2 ** statement.depth
    )
      throw new BadReceipt(`The proof of call ${record} is incomplete.`)
    const leaf = yield leafBytes(saltBytes, text)
    if (!(yield* this.#leadsToRoot(leaf, slot, siblings, found)))
      throw new BadReceipt(`The proof of call ${record} does not lead to its block. The file was changed.`)
    const content: LeafContent = JSON.parse(text)
    const { first_group, last_group } = statement
    const isWithin = content.group >= first_group && content.group <= last_group
    if (content.record !== record || content.writer !== writer || !isWithin)
      throw new BadReceipt(`A proof of call ${record} is about something else.`)
    return content
  }

  /** Follows the path up to a node that is proven already, which at last is the root. */
  *#leadsToRoot(leaf: Uint8Array, slot: number, siblings: Uint8Array, block: KnownBlock): Hashed<boolean> {
    const { statement, proven } = block
    const passed: (readonly [number, Uint8Array])[] = []
    let [hash, place] = [leaf, 2 ** statement.depth + slot]
    for (let level = 0; place > ROOT && !proven.has(place); level += 1) {
      const sibling = siblings.subarray(level * HASH_BYTES, (level + 1) * HASH_BYTES)
      passed.push([place, hash], [place ^ 1, sibling])
      hash = yield place % 2 === 0 ? nodeBytes(hash, sibling) : nodeBytes(sibling, hash)
      place >>= 1
    }
    if (!isEqual(proven.get(place) ?? NOTHING, hash)) return false
    if (this.#kept > MAX_KEPT) this.#forget()
    for (const [at, node] of passed) proven.set(at, node)
    this.#kept += passed.length
    return true
  }

  /** Forgets nodes that can be proven again. */
  #forget(): void {
    this.#kept = 0
    for (const { proven } of this.#roots.values()) {
      const root = proven.get(ROOT) ?? NOTHING
      proven.clear()
      proven.set(ROOT, root)
    }
  }
}

interface KnownBlock {
  readonly statement: BlockStatement
  /**
   * Nodes that are proven to be below the root, because most paths of a file share nodes. They are numbered from the root, 1, so that
   * the nodes below node n are 2n and 2n + 1.
   */
  readonly proven: Map<number, Uint8Array>
}

const ROOT = 1
const NOTHING = new Uint8Array()
const MAX_KEPT = 200_000
/** Numbers of nodes are 32-bit integers. */
const MAX_DEPTH = 29

/** The signature in the last line of a file; `undefined` for any other line. */
export function signatureIn(line: string): Uint8Array<ArrayBuffer> | undefined {
  const [, text = ''] = /^\{"signature":"([\w-]{86})"\}$/.exec(line) ?? []
  return text === '' ? undefined : fromBase64Url(text)
}

function* checkContents({ input, outcome }: OpenedContents, facts: readonly LeafContent[]): Hashed<void> {
  if (input !== undefined) {
    const digest = yield* saltedDigest(input.salt, hex(yield bytesOf(input.json)))
    if (!facts.some((fact) => fact.input === digest))
      throw new BadReceipt('The input in the file is not the recorded one.')
  }
  if (outcome !== undefined) {
    const digest = yield* saltedDigest(outcome.salt, hex(yield bytesOf(outcome.json)))
    if (!facts.some(({ outcomes = [] }) => outcomes.some((recorded) => recorded.digest === digest)))
      throw new BadReceipt('The outcome in the file is not the recorded one.')
  }
}

function* saltedDigest(salt: string, digest: string): Hashed<string> {
  return toBase64Url(yield saltedBytes(fromBase64Url(salt) ?? new Uint8Array(), digest))
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text)
}

function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

function readLeaf(value: unknown): ProvenLeaf {
  if (isObject(value)) {
    const { writer, block, slot, salt, path, text } = value
    if (isText(writer) && isCount(block) && isCount(slot) && isText(salt) && isText(path) && isText(text))
      return { writer, block, slot, salt, path, text }
  }
  throw new BadReceipt('A proof in the file is incomplete.')
}

function readContents({ input, outcome }: Readonly<Record<string, unknown>>): OpenedContents {
  const read = (value: unknown) => {
    if (!isObject(value) || !isText(value.salt) || !isText(value.json)) return undefined
    return { salt: value.salt, json: value.json }
  }
  const [opened, result] = [read(input), read(outcome)]
  return {
    ...(opened && { input: opened }),
    ...(result && { outcome: result }),
  } satisfies Partial<CallReceipt>
}

function parse(line: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(line)
    if (isObject(value)) return value
  } catch {
    // Reported below, like any other line that is not an object.
  }
  throw new BadReceipt('A line of the file is not a JSON object: it is not a receipt file, or was changed.')
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false
  for (let index = 0; index < one.length; index += 1) if (one[index] !== other[index]) return false
  return true
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

function nameOf(writer: string, block: number): string {
  return `${writer}:${block}`
}
