import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { z } from 'zod'
import { locationOfThrown } from '#kernel/base/thrown'
import { readJsonConfig, type Variables } from './json-config.ts'
import { CONFIG_SCHEMA, type ParsedConfig } from './schema.ts'
import { LINE } from './schema-policies.ts'

/*
 * Finds, imports and checks a config file.
 * Used by the command line and by reloads.
 * Invariant: an invalid config throws one `ConfigError` with every problem, and no message repeats a value.
 */

const CONFIG_NAMES = [
  'collet.config.ts',
  'collet.config.js',
  'collet.config.mjs',
  'collet.config.json',
] as const

/** The config file to use, absolute: the named one, or the only one in the folder. */
export function findConfig(folder: string, named?: string): string {
  if (named !== undefined) {
    const file = resolve(folder, named)
    if (existsSync(file)) return file
    throw configError(`There is no config file ${file}.`)
  }
  const [first, second] = CONFIG_NAMES.filter((name) => existsSync(join(folder, name)))
  if (first === undefined) {
    throw configError(
      `There is no config in ${folder}. "collet init" creates one with a first tool; --config names a file elsewhere.`,
    )
  }
  if (second !== undefined) {
    throw configError(`Both ${first} and ${second} are in ${folder}. Keep one, or name one with --config.`)
  }
  return join(folder, first)
}

export function hasConfig(folder: string): boolean {
  return CONFIG_NAMES.some((name) => existsSync(join(folder, name)))
}

export interface LoadedConfig {
  /** Absolute path. */
  readonly file: string
  /** Relative paths in the config start here. */
  readonly folder: string
  readonly config: ParsedConfig
}

interface LoadOptions {
  /** Default: Node's own import. */
  readonly load?: ImportModule | undefined
  /** Environment variables for placeholders of a JSON config. */
  readonly variables?: Variables
}

/** Reads and checks one config file. Tool files are not imported yet: see `loadTools`. */
export async function loadConfig(
  file: string,
  { load, variables = {} }: LoadOptions = {},
): Promise<LoadedConfig> {
  const raw = file.endsWith('.json') ? await readJson(file, variables) : await readModule(file, load)
  return { file, folder: dirname(file), config: parseConfig(raw, file) }
}

async function readModule(file: string, load: ImportModule | undefined): Promise<unknown> {
  const { default: config } = await importFile(file, load)
  if (config !== undefined) return config
  throw configError('exports no config. Write "export default defineConfig({ … })".', { file })
}

async function readJson(file: string, variables: Variables): Promise<unknown> {
  try {
    const { config, problems } = readJsonConfig(await readFile(file, 'utf8'), variables)
    if (problems.length === 0) return config
    throw new ConfigError(problems.map((found) => ({ severity: 'error', file, ...found })))
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const isSyntax = error instanceof SyntaxError
    throw configError(isSyntax ? `is not JSON: ${error.message}` : 'cannot be read.', { file }, error)
  }
}

/** Checks a config and fills in its defaults; throws one `ConfigError` with every problem. */
export function parseConfig(config: unknown, file: string): ParsedConfig {
  const parsed = CONFIG_SCHEMA.safeParse(config, { error: issueText })
  if (parsed.success) return parsed.data
  throw new ConfigError(parsed.error.issues.flatMap((issue) => toProblems(issue, file)))
}

function toProblems(issue: z.core.$ZodIssue, file: string): ConfigProblem[] {
  const where = pathText(issue.path)
  return issue.message
    .split(LINE)
    .map((message) => ({ severity: 'error', file, ...(where === '' ? {} : { where }), message }))
}

function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`
    return text === '' ? String(step) : `${text}.${String(step)}`
  }, '')
}

/** Texts for issues that the schema does not explain. Values are never repeated, because they may be secrets. */
function issueText(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return wrongType(issue.expected, issue.input)
    case 'too_small':
      return issue.origin === 'string' ? 'must not be empty.' : `must be at least ${issue.minimum}.`
    case 'too_big':
      return `must be at most ${issue.maximum}.`
    case 'invalid_value':
      return `expected one of ${issue.values.map((value) => JSON.stringify(value)).join(', ')}.`
    case 'invalid_key':
      // The schema of the key has its own message.
      return issue.issues[0]?.message
    default:
      return undefined
  }
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  undefined: 'nothing',
}

function wrongType(expected: string, input: unknown): string {
  const wanted = TYPE_NAMES[expected] ?? expected
  if (input === undefined)
    return `expected ${wanted}, got nothing. If it comes from an environment variable, is that variable set?`
  return `expected ${wanted}, got ${kindOf(input)}.`
}

function kindOf(input: unknown): string {
  if (input === null) return 'null'
  if (Array.isArray(input)) return 'a list'
  if (typeof input === 'number') return Number.isInteger(input) ? 'a number' : `${input}`
  return TYPE_NAMES[typeof input] ?? `a ${typeof input}`
}

/** Stack frames from this file onwards belong to the loader. In a build this code may be in another file. */
const OWN_FILE = pathToFileURL(import.meta.filename).href

export type ImportModule = (url: string) => Promise<Readonly<Record<string, unknown>>>

/** Imports a file again, bypassing Node's module cache; its own imports stay cached. */
export function importAgain(): ImportModule {
  const stamp = performance.now()
  return (url) => import(`${url}?read=${stamp}`)
}

/** The exports of a user's file, by default as Node imports it; every failure becomes one problem that names the file. */
export async function importFile(
  file: string,
  load: ImportModule = (url) => import(url),
): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await load(pathToFileURL(file).href)
  } catch (error) {
    const place = placeOfImport(error)
    const at = place === undefined ? { file } : { file, where: `at ${place}` }
    throw configError(importProblem(error), at, error)
  }
}

/** Explanations of Node's error codes for the author of the file. */
const EXPLAINED: Readonly<Record<string, string>> = {
  ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX:
    'Node runs TypeScript by removing types, so syntax that needs code (enum, namespace, parameter properties) cannot be used here; write plain objects and fields instead.',
  ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING:
    'Node does not run TypeScript inside node_modules; import a package that ships JavaScript.',
  ERR_MODULE_NOT_FOUND: 'Check the path, with its extension: Node imports "./x.ts", not "./x".',
  ERR_UNSUPPORTED_DIR_IMPORT: 'Name the file in that folder, with its extension.',
}

function importProblem(error: unknown): string {
  if (!(error instanceof Error))
    return `threw ${typeof error === 'string' ? error : 'something that is not an Error'} while loading.`
  const missing = missingPackage(error)
  if (missing !== undefined)
    return `imports "${missing}", which is not installed. Run: npm install ${missing === OWN_NAME ? quoted(ROOT) : missing}`
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const advice = EXPLAINED[code]
  const text = `${error.name}: ${error.message}`
  return advice === undefined ? `failed while loading: ${text}` : `${text}. ${advice}`
}

/** Collet itself is not on npm: the running checkout or installed copy is a folder that npm can install. */
const OWN_NAME = 'collet'
const ROOT = fileURLToPath(new URL('../../', import.meta.url)).replace(/[/\\]$/, '')

function quoted(path: string): string {
  return /\s/.test(path) ? `"${path}"` : path
}

/** The npm package that an import did not find. Node names it only in the message. */
function missingPackage(error: Error): string | undefined {
  if (!('code' in error) || error.code !== 'ERR_MODULE_NOT_FOUND') return undefined
  return /^Cannot find package '([^']+)'/.exec(error.message)?.[1]
}

/** For a missing package, Node names the importing file only in the message. */
function placeOfImport(error: unknown): string | undefined {
  const place = locationOfThrown(error, OWN_FILE)
  if (place !== undefined || !(error instanceof Error) || missingPackage(error) === undefined) return place
  return / imported from (.+)$/.exec(error.message)?.[1]
}

/** A problem that prevents the start, or a warning. */
export interface ConfigProblem {
  readonly severity: 'error' | 'warning'
  /** Absolute path of the file to edit; absent for flags and environment variables. */
  readonly file?: string
  /** Position: `server.port`, a tool id, `COLLET_KEY`, or a line, for example `12:5`. */
  readonly where?: string
  /** What was expected, what was found, what to do. Never contains a key or secret. */
  readonly message: string
}

/** An invalid configuration. Contains every problem found, not only the first. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly problems: readonly ConfigProblem[]

  constructor(problems: readonly ConfigProblem[], options?: { readonly cause?: unknown }) {
    super(problems.map(describeProblem).join('\n'), options)
    this.problems = problems
  }
}

export function configError(
  message: string,
  at: Pick<ConfigProblem, 'file' | 'where'> = {},
  cause?: unknown,
): ConfigError {
  return new ConfigError([{ severity: 'error', ...at, message }], { cause })
}

export function describeProblem({ file, where, message }: ConfigProblem): string {
  return [file, where, message].filter((part) => part !== undefined && part !== '').join(': ')
}
