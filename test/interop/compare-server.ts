import { isDeepStrictEqual } from 'node:util'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { isNewest, upgradeSchema } from '#schema/upgrade'

/*
 * Reads everything that a client can list from a server, and compares two readings member by member. `run-servers.ts` uses it to
 * read each public server directly and through Collet.
 * Invariant: only what a revision permits to differ is left out of the comparison: the order of members, hints that equal their
 * defaults, a title that is in the annotations, schemas of older drafts, which are passed on as 2020-12, and what Collet adds under
 * its own prefix.
 */

const KINDS = ['tools', 'prompts', 'resources', 'resourceTemplates'] as const
type Kind = (typeof KINDS)[number]

/** Members by which two lists are matched. */
const ID: Readonly<Record<Kind, string>> = {
  tools: 'name',
  prompts: 'name',
  resources: 'uri',
  resourceTemplates: 'uriTemplate',
}

const CAPABILITY = {
  tools: 'tools',
  prompts: 'prompts',
  resources: 'resources',
  resourceTemplates: 'resources',
} as const satisfies Record<Kind, string>

export interface KnownCall {
  readonly tool: string
  readonly arguments: JsonObject
}

export interface Reading {
  readonly lists: Readonly<Record<Kind, ReadonlyMap<string, JsonObject>>>
  /** Results of prompts without required arguments, of the first resources and of the known calls. */
  readonly results: ReadonlyMap<string, JsonValue>
}

const MAX_PAGES = 50
const MAX_READ = 3
const TIMEOUT = { timeout: 20_000 }

export async function readServer(client: Client, calls: readonly KnownCall[]): Promise<Reading> {
  const has = client.getServerCapabilities() ?? {}
  const list = async (kind: Kind) => {
    const items = new Map<string, JsonObject>()
    if (has[CAPABILITY[kind]] === undefined) return items
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const answer = plain(await listPage(client, kind, cursor))
      const listed = isJsonObject(answer) ? answer[kind] : undefined
      for (const item of Array.isArray(listed) ? listed : [])
        if (isJsonObject(item)) items.set(String(item[ID[kind]]), item)
      const next = isJsonObject(answer) ? answer.nextCursor : undefined
      if (typeof next !== 'string') break
      cursor = next
    }
    return items
  }
  const lists = {
    tools: await list('tools'),
    prompts: await list('prompts'),
    resources: await list('resources'),
    resourceTemplates: await list('resourceTemplates').catch(() => new Map<string, JsonObject>()),
  }
  const results = new Map<string, JsonValue>()
  const tried = async (name: string, run: () => Promise<unknown>) =>
    results.set(name, await run().then(plain, (error) => ({ error: String(error) })))
  for (const [name, { arguments: args }] of [...lists.prompts].sort().slice(0, MAX_READ)) {
    const isFree = !Array.isArray(args) || !args.some((each) => isJsonObject(each) && each.required === true)
    if (isFree) await tried(`prompt ${name}`, () => client.getPrompt({ name }, TIMEOUT))
  }
  for (const uri of [...lists.resources.keys()].sort().slice(0, MAX_READ))
    await tried(`resource ${uri}`, () => client.readResource({ uri }, TIMEOUT))
  for (const { tool, arguments: input } of calls)
    await tried(`call ${tool}`, () =>
      client.callTool({ name: tool, arguments: { ...input } }, undefined, TIMEOUT),
    )
  return { lists, results }
}

function listPage(client: Client, kind: Kind, cursor: string | undefined): Promise<unknown> {
  const params = cursor === undefined ? {} : { cursor }
  if (kind === 'tools') return client.listTools(params, TIMEOUT)
  if (kind === 'prompts') return client.listPrompts(params, TIMEOUT)
  if (kind === 'resources') return client.listResources(params, TIMEOUT)
  return client.listResourceTemplates(params, TIMEOUT)
}

function plain(value: unknown): JsonValue {
  return JSON.parse(JSON.stringify(value))
}

export interface Difference {
  /** The kind and member, for example `tools.inputSchema`, or `tools` for an item that is absent. */
  readonly member: string
  /** The name of the tool or the address of the resource. */
  readonly of: string
  readonly direct: JsonValue | undefined
  readonly through: JsonValue | undefined
}

/** Every member that is not equal; an absent item is one difference. */
export function compareReadings(direct: Reading, through: Reading): readonly Difference[] {
  const listed = KINDS.flatMap((kind) => {
    const names = new Set([...direct.lists[kind].keys(), ...through.lists[kind].keys()])
    return [...names].flatMap((name) =>
      compareItems(kind, name, direct.lists[kind].get(name), through.lists[kind].get(name)),
    )
  })
  const names = new Set([...direct.results.keys(), ...through.results.keys()])
  const results = [...names].flatMap((name): Difference[] => {
    const [left, right] = [direct.results.get(name), through.results.get(name)].map(withoutOwn)
    return isDeepStrictEqual(left, right)
      ? []
      : [{ member: 'result', of: name, direct: left, through: right }]
  })
  return [...listed, ...results]
}

function compareItems(
  kind: Kind,
  of: string,
  direct: JsonObject | undefined,
  through: JsonObject | undefined,
): readonly Difference[] {
  if (direct === undefined || through === undefined)
    return [{ member: kind, of, direct: direct && 'listed', through: through && 'listed' }]
  const [left, right] = [direct, through].map((item) => normalised(kind, item))
  const members = new Set([...Object.keys(left ?? {}), ...Object.keys(right ?? {})])
  return [...members].flatMap((member): Difference[] => {
    const [before, after] = [left?.[member], right?.[member]]
    // Collet lets clients run any tool as a task.
    const isOffered = member === 'execution' && isDeepStrictEqual(after, { taskSupport: 'optional' })
    return isOffered || isDeepStrictEqual(before, after)
      ? []
      : [{ member: `${kind}.${member}`, of, direct: before, through: after }]
  })
}

/** Defaults of the hints in every revision. */
const HINTS = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }

function normalised(kind: Kind, item: JsonObject): JsonObject {
  const own = withoutOwn(item)
  if (kind !== 'tools' || !isJsonObject(own)) return isJsonObject(own) ? own : {}
  const { annotations, title, description, execution, inputSchema, outputSchema, ...rest } = own
  const { title: annotated, ...hints } = isJsonObject(annotations) ? annotations : {}
  const all = { ...HINTS, ...hints }
  const shown = all.readOnlyHint === true ? { ...all, destructiveHint: true, idempotentHint: false } : all
  const name = title ?? annotated
  return {
    ...rest,
    ...(name === undefined || name === '' ? {} : { title: name }),
    ...(description === undefined ? {} : { description }),
    ...(isDeepStrictEqual(execution ?? NO_TASKS, NO_TASKS) ? {} : { execution: execution ?? null }),
    inputSchema: inNewestDialect(inputSchema),
    ...(outputSchema === undefined ? {} : { outputSchema: inNewestDialect(outputSchema) }),
    annotations: shown,
  }
}

/** The default of `execution`. */
const NO_TASKS = { taskSupport: 'forbidden' }

/** Schemas of older drafts are passed on as 2020-12, the dialect of a schema that names none. */
function inNewestDialect(schema: JsonValue | undefined): JsonValue {
  if (!isJsonObject(schema)) return schema ?? null
  const upgraded = isNewest(schema) ? schema : upgradeSchema(schema)
  return upgraded.properties === undefined && upgraded.type === 'object'
    ? { ...upgraded, properties: {} }
    : upgraded
}

/** Without the members of `_meta` that Collet adds under its own prefix. */
function withoutOwn(value: JsonValue | undefined): JsonValue | undefined {
  if (!isJsonObject(value) || !isJsonObject(value._meta)) return value
  const { _meta, ...rest } = value
  const kept = Object.entries(_meta).filter(([name]) => !name.startsWith('collet/'))
  return kept.length === 0 ? rest : { ...rest, _meta: Object.fromEntries(kept) }
}
