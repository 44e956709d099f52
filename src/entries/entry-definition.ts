import type { Report } from '#kernel/base/errors'
import { copyJson, describeValue, isJsonObject, isRecord, type JsonObject } from '#kernel/base/json'
import { checkKeys, isFunction } from '#kernel/tool/checks'
import type { WrittenMembers } from '#kernel/tool/define'
import type { ListedEntry, PolicyDefinition, ToolRequirements } from '#kernel/tool/tool'

/**
 * The common part of the definitions of prompts and resources: members, policy, icons and the completion of arguments.
 * `prompt.ts`, `resource.ts` and `skill.ts` use it.
 * Invariant: an entry only reads, so its policy states who may use it and how long it may run, never what it may change.
 */

/** An image that clients show beside the name. */
export interface Icon {
  /** An `https:` or `data:` address. */
  readonly src: string
  readonly mimeType?: string
  /** For example `48x48`, or `any` for a scalable image. */
  readonly sizes?: readonly string[]
  readonly theme?: 'light' | 'dark'
}

/** The members that prompts and resources have in common. */
export interface EntryDefinition {
  /** `Toolkit.Name@x.y.z`. */
  readonly id: string
  /** The name that clients use: 1 to 64 of `A-Za-z0-9_-`. Default `Toolkit_Name`. */
  readonly name?: string
  /** A short name for people. */
  readonly title?: string
  /** What it provides and when to use it, for people and models that choose between entries. */
  readonly description: string
  /** Words that toolsets select by. */
  readonly tags?: readonly string[]
  readonly icons?: readonly Icon[]
  /** Secrets, tokens and the user id that it needs. */
  readonly requirements?: ToolRequirements
  /** Who may use it, and how long it may take. */
  readonly policy?: EntryPolicy
}

/** An entry only reads, so it has no tier and needs no approval. */
export type EntryPolicy = Pick<PolicyDefinition, 'scopes' | 'tenants' | 'timeoutMs' | 'cost' | 'egress'>

/** Returns suggestions for an argument, given the typed text; `others` are the arguments that already have values. */
export type Complete = (
  value: string,
  others: Readonly<Record<string, string>>,
) => readonly string[] | Promise<readonly string[]>

export const COMMON_KEYS = {
  id: true,
  name: true,
  title: true,
  description: true,
  tags: true,
  icons: true,
  requirements: true,
  policy: true,
} as const satisfies Record<keyof EntryDefinition, true>

const POLICY_KEYS = Object.keys({
  scopes: true,
  tenants: true,
  timeoutMs: true,
  cost: true,
  egress: true,
} satisfies Record<keyof EntryPolicy, true>)

/** The members that entries share with tools. */
export function commonMembers(written: WrittenMembers, report: Report): WrittenMembers {
  const { id, name, title, description, tags, requirements, policy = {} } = written
  if (isRecord(policy)) checkKeys(policy, POLICY_KEYS, 'policy', report)
  const members = { id, name, title, description, tags, requirements }
  const present = Object.entries(members).filter(([, value]) => value !== undefined)
  return {
    ...Object.fromEntries(present),
    policy: isRecord(policy) ? { ...policy, safetyTier: 'read', replay: 'idempotent' } : policy,
  }
}

/** The members that lists show besides the name. */
export function listedMembers({ title, description, icons }: WrittenMembers, report: Report): JsonObject {
  const shown = readIcons(icons, report)
  return {
    ...(typeof title === 'string' ? { title } : {}),
    ...(typeof description === 'string' ? { description } : {}),
    ...(shown === undefined ? {} : { icons: shown }),
  }
}

const ICON_FIX = "Write `icons: [{ src: 'https://…' or 'data:…', mimeType: 'image/png', sizes: ['48x48'] }]`."

function readIcons(icons: unknown, report: Report): readonly JsonObject[] | undefined {
  if (icons === undefined) return undefined
  const copied = copyJson(icons)
  const list = copied.ok && Array.isArray(copied.value) ? copied.value : undefined
  if (list === undefined) return report('icons', `Is ${describeValue(icons)}.`, ICON_FIX)
  const found = list.filter(isJsonObject)
  const isSound = found.length === list.length && found.every(({ src }) => isPicture(src))
  return isSound ? found : report('icons', 'Has an icon without a usable address.', ICON_FIX)
}

function isPicture(src: unknown): boolean {
  return typeof src === 'string' && /^(?:https:\/\/|data:)\S+$/.test(src)
}

/** The completion of an entry's arguments; an argument with a fixed list of values needs no function. */
export function readCompletion(
  written: unknown,
  args: ReadonlyMap<string, readonly string[] | undefined>,
  report: Report,
): NonNullable<ListedEntry['complete']> {
  const functions = new Map<string, Complete>()
  if (written !== undefined && !isRecord(written))
    report('complete', `Is ${describeValue(written)}.`, COMPLETE_FIX)
  for (const [name, complete] of Object.entries(isRecord(written) ? written : {})) {
    if (!args.has(name))
      report(`complete/${name}`, 'Is not an argument.', `Known arguments: ${[...args.keys()].join(', ')}.`)
    else if (isFunction<Complete>(complete)) functions.set(name, complete)
    else report(`complete/${name}`, `Is ${describeValue(complete)}.`, COMPLETE_FIX)
  }
  return async (argument, value, others) => {
    if (!args.has(argument)) return undefined
    const complete = functions.get(argument)
    if (complete !== undefined) return (await complete(value, others)).map(String)
    const choices = args.get(argument) ?? []
    return choices.filter((choice) => choice.toLowerCase().startsWith(value.toLowerCase()))
  }
}

const COMPLETE_FIX =
  'Write one function for each argument: `complete: { city: (value, others) => […] }`, or leave it out.'
