import { hash } from 'node:crypto'
import { canonicalJson, type JsonObject, type JsonValue } from '#kernel/base/json'

/*
 * The idempotency keys of an agent's calls: one intention has one key. A key is a digest of the conversation, the
 * tool, the input, and the number of earlier calls of the same tool with the same input whose results the history
 * shows. `toolset.ts` gets a key here before each call.
 * Invariants: a key does not depend on the id that a provider gives a tool call, so a resumed loop and a retried step
 * find the recorded call; equal calls in one message have different keys.
 */

/** A call that the history of a conversation shows. */
export interface ShownCall {
  readonly id: string
  /** The name that the model used. */
  readonly name: string
  readonly input: JsonValue
  /** Number of the message that made the call; it rises along the history, and calls of one message have the same number. */
  readonly turn: number
  /** Whether the history has its result. A result that begins with `UNFINISHED` does not count. */
  readonly isDone: boolean
}

/** A call or a result in a history, in the order of the messages. */
export type HistoryEntry =
  | { readonly call: Omit<ShownCall, 'isDone'> }
  | { readonly resultOf: string; readonly text: string }

/** Reads a history from its end, because a provider may use an id again in a later message. */
export function shownCalls(entries: readonly HistoryEntry[]): readonly ShownCall[] {
  const done = new Set<string>()
  const calls: ShownCall[] = []
  for (const entry of entries.toReversed()) {
    if ('resultOf' in entry) {
      if (!entry.text.startsWith(UNFINISHED)) done.add(entry.resultOf)
      continue
    }
    const { id } = entry.call
    calls.unshift({ ...entry.call, isDone: done.delete(id) })
  }
  return calls
}

/** A call with its tool and the input that the tool gets, whichever way the model wrote them. */
export interface KnownCall {
  readonly tool: string
  readonly input: JsonObject
  /** Members of the input that identify the effect; absent: all of them. */
  readonly identity?: readonly string[] | undefined
  /** How often the model has asked to repeat the effect on purpose; usually 0. */
  readonly again: number
}

/** How many calls of each kind had results in messages that are no longer part of the history. */
export type EarlierCalls = Readonly<Record<string, number>>

/** The position of a call in a conversation. */
export interface CallPlace {
  readonly conversation: string
  /** The provider's id of the call. */
  readonly id: string
  /** Shared by the calls of one message and by no other. */
  readonly step: object
  readonly history: readonly ShownCall[]
}

export interface CallKeysOptions {
  readonly earlier?: EarlierCalls | undefined
  /** Finds the tool of a call in the history; `undefined` for calls of other tools. */
  read(name: string, input: JsonValue): KnownCall | undefined
  /** The number of intended repetitions, according to the application. */
  again?: ((call: KnownCall) => number) | undefined
}

/** Beginning of a result whose call has no known outcome; `ShownCall.isDone` is false for it. */
const UNFINISHED = 'The outcome of this call is not known yet.'

export function unfinishedText(text: string): string {
  return `${UNFINISHED} ${text}`
}

export class CallKeys {
  readonly #options: CallKeysOptions
  /** Calls of messages that the history does not show yet, in the order in which the loop started them. */
  readonly #started = new WeakMap<object, Map<string, string[]>>()

  constructor(options: CallKeysOptions) {
    this.#options = options
  }

  keyOf(call: KnownCall, { conversation, id, step, history }: CallPlace): string {
    const { again } = this.#options
    const kind = kindOf(call)
    const n = call.identity === undefined ? this.#occurrence(id, kind, step, history) : 0
    const repeated = call.again + (again?.(call) ?? 0)
    const parts = [conversation, kind, n, repeated]
    return `agent-${hash('sha256', canonicalJson(parts), 'base64url')}`
  }

  /** Counts the calls whose results a part of the history shows, to be kept when that part is removed. */
  count(history: readonly ShownCall[]): EarlierCalls {
    const counts = new Map(Object.entries(this.#options.earlier ?? {}))
    for (const shown of history) {
      const kind = this.#kindOfShown(shown)
      if (kind !== undefined && shown.isDone) counts.set(kind, (counts.get(kind) ?? 0) + 1)
    }
    return Object.fromEntries(counts)
  }

  #occurrence(id: string, kind: string, step: object, history: readonly ShownCall[]): number {
    const same = history.filter((shown) => this.#kindOfShown(shown) === kind)
    const lastTurn = history.at(-1)?.turn
    const own = same.find((shown) => shown.id === id && shown.turn === lastTurn && !shown.isDone)
    const before = same.filter((shown) => shown.isDone && shown.turn !== own?.turn).length
    const position =
      own === undefined
        ? this.#startedPosition(id, kind, step)
        : same.filter(({ turn }) => turn === own.turn).indexOf(own)
    return (this.#options.earlier?.[kind] ?? 0) + before + position
  }

  #startedPosition(id: string, kind: string, step: object): number {
    const kinds = this.#started.get(step) ?? new Map<string, string[]>()
    const ids = kinds.get(kind) ?? []
    if (!ids.includes(id)) ids.push(id)
    kinds.set(kind, ids)
    this.#started.set(step, kinds)
    return ids.indexOf(id)
  }

  #kindOfShown({ name, input }: ShownCall): string | undefined {
    const call = this.#options.read(name, input)
    return call === undefined ? undefined : kindOf(call)
  }
}

/** Digest of the tool and of the input that identifies its effect. */
function kindOf({ tool, input, identity }: KnownCall): string {
  const named =
    identity === undefined
      ? input
      : Object.fromEntries(identity.flatMap((name) => (name in input ? [[name, input[name] ?? null]] : [])))
  return hash('sha256', canonicalJson([tool, named]), 'base64url')
}
