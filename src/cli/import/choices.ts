import { type Arguments, type CommandContext, type OptionSpecs, UsageError } from '#cli/command'
import { confirm } from '#cli/input'
import { counted } from '#cli/output'
import { defined, type JsonObject } from '#kernel/base/json'
import { FIRST_START_MS } from '#server/import/preview'
import type { OfferedTool } from '#sources/kit/source'

/**
 * The choices of `collet import`: which tools, which trust, which timeouts. They apply to every source that one
 * command adds. Invariant: an option that does not apply to the type of a source is refused, and trust in annotations is
 * never assumed.
 */

const TRUST = ['nothing', 'annotations'] as const
const METHODS = ['get', 'head', 'options', 'put', 'post', 'patch', 'delete'] as const
const READING_METHODS = ['get', 'head'] as const
const MAX_SECONDS = 600

export const CHOICE_OPTIONS = {
  include: {
    value: 'NAME',
    many: true,
    help: 'Only tools with this name; * stands for any characters. May be repeated.',
  },
  tag: { value: 'TAG', many: true, help: 'OpenAPI: only operations with this tag. May be repeated.' },
  method: {
    value: 'M',
    many: true,
    help: 'OpenAPI: only operations with this HTTP method. May be repeated.',
  },
  'read-only': {
    help: 'Only tools that read: GET and HEAD of OpenAPI, and MCP tools that are marked read-only.',
  },
  trust: {
    value: 'T',
    help: 'MCP: trust the annotations of its tools (read-only, idempotent), or nothing. Default: asked on a terminal, else nothing.',
  },
  timeout: {
    value: 'SECONDS',
    help: 'MCP: how long it may take to start and answer. Default 60 during the import, 30 later.',
  },
} as const satisfies OptionSpecs

export type ChoiceOption = keyof typeof CHOICE_OPTIONS
type Trust = (typeof TRUST)[number]

export class ImportChoices {
  readonly #include: readonly string[]
  readonly #tags: readonly string[]
  readonly #methods: readonly string[]
  readonly #isReadOnly: boolean
  readonly #trust: Trust | undefined
  readonly #timeoutMs: number | undefined

  constructor(args: Arguments<ChoiceOption>) {
    this.#include = args.texts('include')
    this.#tags = args.texts('tag')
    this.#methods = args.texts('method').map(readMethod)
    this.#isReadOnly = args.flag('read-only')
    this.#trust = args.oneOf('trust', TRUST)
    const seconds = args.integer('timeout', { min: 1, max: MAX_SECONDS })
    this.#timeoutMs = seconds === undefined ? undefined : seconds * 1000
  }

  /** Timeout of a start, in seconds. */
  get startSeconds(): number {
    return (this.#timeoutMs ?? FIRST_START_MS) / 1000
  }

  /** Adds the choices to the options of a source; refuses those that do not apply to its type. */
  apply(options: JsonObject): JsonObject {
    const type = String(options.type)
    const timeoutMs = this.#timeoutMs
    const limited: readonly (readonly [option: ChoiceOption, isUsed: boolean, types: readonly string[]])[] = [
      ['tag', this.#tags.length > 0, ['openapi']],
      ['method', this.#methods.length > 0, ['openapi']],
      ['trust', this.#trust !== undefined, ['mcp']],
      ['timeout', timeoutMs !== undefined, ['mcp']],
      ['read-only', this.#isReadOnly, ['openapi', 'mcp']],
    ]
    for (const [option, isUsed, types] of limited)
      if (isUsed && !types.includes(type))
        throw new UsageError(`--${option} is for ${types.join(' and ')}, but this source is ${type}.`)
    const methods = this.#isReadOnly && type === 'openapi' ? READING_METHODS : this.#methods
    return {
      ...options,
      ...(this.#include.length === 0 ? {} : { include: this.#include }),
      ...(this.#tags.length === 0 ? {} : { tags: this.#tags }),
      ...(methods.length === 0 ? {} : { methods }),
      // Listing follows the start and has its own timeout.
      ...defined({
        connectTimeoutMs: timeoutMs,
        discoverTimeoutMs: timeoutMs && Math.max(FIRST_START_MS, timeoutMs),
      }),
    }
  }

  /** With `--read-only`: the tools that declare themselves read-only. */
  narrow(tools: readonly OfferedTool[], options: JsonObject): readonly OfferedTool[] {
    return this.#isReadOnly && options.type === 'mcp'
      ? tools.filter((tool) => tool.entry !== undefined || isReadOnly(tool))
      : tools
  }

  /** The options to store; a narrowed source lists exactly the tools that were seen. */
  stored(options: JsonObject, tools: readonly OfferedTool[], trust: Trust): JsonObject {
    const isNarrowed = this.#isReadOnly && options.type === 'mcp'
    return {
      ...options,
      ...(isNarrowed ? { include: tools.map(({ nativeName }) => nativeName) } : {}),
      ...(trust === 'annotations' && options.type === 'mcp' ? { trust } : {}),
    }
  }

  /** Whether to trust annotations: `--trust`, else the answer on a terminal, else no. */
  async decideTrust(tools: readonly OfferedTool[], context: CommandContext): Promise<Trust> {
    if (this.#trust !== undefined) return this.#trust
    const summary = summarizeAnnotations(tools)
    if (summary === undefined) return 'nothing'
    if (context.stdin.isTTY === true)
      return (await confirm(context, `${summary}. Trust these annotations?`)) ? 'annotations' : 'nothing'
    context.output.note(`${summary}. All tools are treated as writes unless you add --trust annotations.`)
    return 'nothing'
  }
}

function readMethod(text: string): string {
  const method = METHODS.find((known) => known === text.toLowerCase())
  if (method !== undefined) return method
  throw new UsageError(`--method expects one of ${METHODS.join(', ')}; got "${text}".`)
}

function isReadOnly({ hints }: OfferedTool): boolean {
  return hints?.readOnly === true
}

/** Describes how many tools have annotations, for the question; `undefined` if no tool has any. */
function summarizeAnnotations(tools: readonly OfferedTool[]): string | undefined {
  const named = tools.filter(({ entry }) => entry === undefined)
  const readOnly = named.filter(isReadOnly).length
  const idempotent = named.filter(({ hints }) => hints?.idempotent === true && !hints.readOnly).length
  if (readOnly === 0 && idempotent === 0) return undefined
  const all = counted(named.length, 'tool')
  if (readOnly === 0) return `${idempotent} of ${all} are marked idempotent`
  return `${readOnly} of ${all} are marked read-only${idempotent === 0 ? '' : `, ${idempotent} idempotent`}`
}
