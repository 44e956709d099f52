import { fault } from './errors.ts'
import { hasControlCharacter } from './json.ts'

/**
 * Ids of runs, calls and tools: their grammar, their parsing and their order. Protocols parse ids with this module, the catalog
 * compares versions and the store orders records with it. Ids that pass the checks can be sent unchanged in headers, paths and
 * events. Clients in browsers load this module too.
 */

const MAX_RUN_ID_LENGTH = 128
const OWN_RUN = /^run_([A-Za-z0-9_-]{24})$/

/** The run id of a call that does not name a run, derived from its record so that a replay has the same run id. */
export function ownRunId(record: string): string {
  return `run_${record}`
}

/** The id of the run that a call belongs to: the run that its caller named, or its own run. */
export function runIdOf(
  { record }: { readonly record: string },
  { run }: { readonly run: { readonly runId: string } | undefined },
): string {
  return run?.runId ?? ownRunId(record)
}

/** The record of the call whose own run may have this id. */
export function recordOfRunId(runId: string): string | undefined {
  return OWN_RUN.exec(runId)?.[1]
}

/** Refuses ids that cannot be sent in a header, a path and an event (OWP-99). */
export function checkRunId(runId: string): string {
  return checkText('A run id', runId, runId.length, MAX_RUN_ID_LENGTH)
}

function checkText(subject: string, text: string, length: number, maxLength: number): string {
  if (length === 0 || length > maxLength) {
    throw fault('request_invalid', `${subject} must have 1 to ${maxLength} characters.`)
  }
  if (hasControlCharacter(text) || !text.isWellFormed()) {
    throw fault('request_invalid', `${subject} must not contain control characters or lone surrogates.`)
  }
  return text
}

/**
 * The id for a call without a key: a UUID of version 4 (OTC/T-24) whose first 48 bits are the time. Fully random ids
 * would scatter the records of a busy second over the whole index.
 */
export function newCallId(): string {
  const ms = Date.now()
  if (ms !== timePrefixMs) {
    // The time is formatted as two small integers, because V8 formats large numbers slowly.
    const high = Math.floor(ms / 0x1_0000)
    timePrefix = `${hex(high, 8)}-${hex(ms - high * 0x1_0000, 4)}`
    timePrefixMs = ms
  }
  return timePrefix + crypto.randomUUID().slice(TIME_DIGITS)
}

/** The first digits of ids made in the last millisecond, cached because a busy server makes many ids per millisecond. */
let timePrefix = ''
let timePrefixMs = -1

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0')
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
/** Number of characters at the start of a UUID that contain its time. */
const TIME_DIGITS = 13
/** The characters of base64url, in the order in which databases sort them. */
const SORTED = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'
/** Seven characters of six bits each are enough for the milliseconds of 139 years. */
const TIME_CHARACTERS = 7

/**
 * The digest of a call id, with its beginning replaced by the time in the id, so that calls made together are stored together.
 * The id may be a version 4 UUID from this server or a version 7 UUID from a client. A wrong time only loses this locality.
 */
export function inTimeOrder(digest: string, callId: string): string {
  if (!UUID.test(callId)) return digest
  const digits = callId.slice(0, TIME_DIGITS)
  if (digits !== readDigits) {
    readTime = timeOf(digits)
    readDigits = digits
  }
  return readTime === undefined ? digest : readTime + digest.slice(TIME_CHARACTERS)
}

/** The last time that was decoded, cached because calls in the same millisecond share it. */
let readDigits = ''
let readTime: string | undefined

/** Decodes the time; `undefined` if the digits cannot be a time, as in 63 of 64 random UUIDs. */
function timeOf(digits: string): string | undefined {
  const high = Number.parseInt(digits.slice(0, 8), 16)
  const low = Number.parseInt(digits.slice(9), 16)
  if (high >= 1 << 26) return undefined
  return (
    sorted(high >> 20) +
    sorted(high >> 14) +
    sorted(high >> 8) +
    sorted(high >> 2) +
    sorted((high << 4) | (low >> 12)) +
    sorted(low >> 6) +
    sorted(low)
  )
}

/** The character for the lowest six bits. */
function sorted(bits: number): string {
  return SORTED[bits & 63] ?? ''
}

const MAX_KEY_LENGTH = 256

/** Refuses keys that cannot be stored and compared exactly (rule 4, OTC/T-24). */
export function checkCallKey(key: string): string {
  const length = key.length <= MAX_KEY_LENGTH ? key.length : [...key.slice(0, 2 * MAX_KEY_LENGTH + 1)].length
  return checkText('A call id', key, length, MAX_KEY_LENGTH)
}

/** The parts of `Toolkit.Name@x.y.z`. */
export interface ToolId {
  /** `Toolkit.Name`, shared by all versions. */
  readonly base: string
  readonly toolkit: string
  readonly name: string
  readonly version: string
}

/**
 * Kinds of definitions that are called like tools but listed apart from them. `template`: a template of resource addresses.
 * `appTool`: a tool that only its server's own page may call. `resources` and `completions`: one definition for each source
 * that has resources or completes arguments.
 */
export type EntryKind = 'prompt' | 'resource' | 'template' | 'skill' | 'resources' | 'completions' | 'appTool'

/** The tool that a caller requests: one of its names, and an exact version or `latest`. */
export interface ToolRef {
  /** `Toolkit.Name`, or another name of the tool. */
  readonly base: string
  /** Absent for a tool. An entry is found only by a reference that names its kind. */
  readonly entry?: EntryKind
  /** `x.y.z` without leading zeros, or `latest` (OTC-61). A requested `x` means `x.0.0` (OTC-60). */
  readonly version: string
  /** `base` is a function name or a catalog id; only a catalog can resolve it. */
  readonly isOtherName?: true
}

export const LATEST = 'latest'

const DEFINED = /^([A-Za-z0-9_]+)\.([A-Za-z0-9_]+)@([0-9]+\.[0-9]+\.[0-9]+)$/
const REQUESTED = /^([A-Za-z0-9_]+\.[A-Za-z0-9_]+)(?:@(?:([0-9]+)|([0-9]+\.[0-9]+\.[0-9]+)))?$/
const VERSION = /^[0-9]+\.[0-9]+\.[0-9]+$/

/** Parses a full id, as in a definition (OTC-23); `undefined` for any other text. */
export function parseToolId(text: string): ToolId | undefined {
  const [, toolkit = '', name = '', version] = DEFINED.exec(text) ?? []
  return version === undefined ? undefined : { base: `${toolkit}.${name}`, toolkit, name, version }
}

/** Parses an id as in a request: without a version, or with `@x` or `@x.y.z` (OTC-43). */
export function parseToolRef(text: string): ToolRef | undefined {
  const [, base, major, exact] = REQUESTED.exec(text) ?? []
  return base === undefined ? undefined : { base, version: readVersion(major, exact) }
}

/** A function name has neither `.` nor `:`; a catalog id has a `:` or begins with `x-host-`. */
const OTHER_NAME =
  /^([A-Za-z0-9_-]{1,64}|[A-Za-z][A-Za-z0-9._-]*:(?:[A-Za-z0-9._/-]|%[0-9A-Fa-f]{2})+|x-host-[a-z0-9-]+)(?:@(?:([0-9]+)|([0-9]+\.[0-9]+\.[0-9]+)))?$/
const MAX_NAME_LENGTH = 300

/**
 * Parses any name of a tool (docs/names.md): `Calculator.Add`, `Calculator_Add`, `openwop:Calculator.Add`,
 * `mcp:fs.read`, each with or without `@x` or `@x.y.z`.
 */
export function parseToolName(text: string): ToolRef | undefined {
  const id = parseToolRef(text)
  if (id !== undefined || text.length > MAX_NAME_LENGTH) return id
  const [, base, major, exact] = OTHER_NAME.exec(text) ?? []
  return base === undefined ? undefined : { base, version: readVersion(major, exact), isOtherName: true }
}

function readVersion(major: string | undefined, exact: string | undefined): string {
  if (exact !== undefined) return plainVersion(exact)
  return major === undefined ? LATEST : `${plainVersion(major)}.0.0`
}

/** The id as a caller would write it. */
export function writeToolRef({ base, version }: ToolRef): string {
  return version === LATEST ? base : `${base}@${version}`
}

const LEADING_ZEROS = /(^|\.)0+(?=[0-9])/g

/** Removes leading zeros, because `01.0.0` and `1.0.0` are the same version (OTC/T-10). */
export function plainVersion(text: string): string {
  return text.replace(LEADING_ZEROS, '$1')
}

/** A tool id without its version; any other text unchanged. */
export function withoutVersion(text: string): string {
  const at = text.lastIndexOf('@')
  return at > 0 && isToolVersion(text.slice(at + 1)) ? text.slice(0, at) : text
}

/** The names that an operator may use for a native name: with and without its version. */
export function operatorNames(nativeName: string): readonly string[] {
  return [...new Set([nativeName, withoutVersion(nativeName)])]
}

export function isToolVersion(text: string): boolean {
  return VERSION.test(text)
}

/** Versions that are valid in semantic versioning and that every reader can represent exactly. */
const SEMANTIC = /^(?:0|[1-9][0-9]{0,14})(?:\.(?:0|[1-9][0-9]{0,14})){2}$/

/** Whether a definition may have this version: no leading zeros, at most 15 digits per number. Requests are read more leniently. */
export function isSemanticVersion(text: string): boolean {
  return SEMANTIC.test(text)
}

/** Numeric order of the three integers, of any size (OTC/T-10, OTC/T-11). */
export function compareVersions(left: string, right: string): number {
  const rights = right.split('.')
  for (const [index, part] of left.split('.').entries()) {
    const a = BigInt(part)
    const b = BigInt(rights[index] ?? '0')
    if (a !== b) return a < b ? -1 : 1
  }
  return 0
}

/** Sorts the versions of a tool, oldest first. */
export function byVersion(left: { readonly parts: ToolId }, right: { readonly parts: ToolId }): number {
  return compareVersions(left.parts.version, right.parts.version)
}

/** Vendor in the ids of host extensions if none is configured. */
export const DEFAULT_VENDOR = 'local'

/** openwop §7.1: the catalog id of a tool of tier `exec`. */
export function hostExtensionId(vendor: string, toolkit: string, name: string): string {
  const labels = [toolkit, name].map((text) => text.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-'))
  return ['x-host', vendor, ...labels].join('-')
}
