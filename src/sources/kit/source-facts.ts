import { canonicalJson, defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'

/**
 * The parts of a source's options that may be recorded. Pins, the journal, notices and pages use them. Invariant: nothing that
 * may be a credential is recorded. So only the name of a package or script is kept from a command, and a keyed digest replaces
 * all its arguments.
 */

/** Arguments without a value that may come before the name of a package or script. */
const LAUNCHER_WORDS = new Set(
  '-y --yes -q --quiet -s --silent -i --interactive --rm -m -u run exec dlx tool x'.split(' '),
)
/** Programs that start the package, image or script that their arguments name. Arguments of any other program may be secrets. */
const LAUNCHERS = new Set(
  'npx npm pnpm yarn bunx bun node deno tsx ts-node uvx uv pipx pip python pypy ruby php perl java dotnet go cargo docker podman nerdctl sh bash zsh env sudo'.split(
    ' ',
  ),
)
/** Matches a package, image, module or file, but not an address, a user with a password, an assignment or a sentence. */
const NAME = /^(?!.*:\/\/)(?![^/]*:[^/]*@)[\w@./\\~:+-]{1,200}$/

/** The package or script that a command starts; `undefined` if that argument may be something else. */
function programIn(command: string, args: readonly string[]): string | undefined {
  const launcher = command
    .replace(/^.*[/\\]/s, '')
    .toLowerCase()
    .replace(/(?:[\d.]+|\.(?:exe|cmd|bat|ps1))$/, '')
  if (!LAUNCHERS.has(launcher)) return undefined
  const word = args.find((each) => !LAUNCHER_WORDS.has(each))
  return word !== undefined && !word.startsWith('-') && NAME.test(word) ? word : undefined
}

/** The command and the package or script it starts, without any other argument. */
export function shownCommand(command: string, args: readonly string[]): string {
  const program = programIn(command, args)
  const shown = shownProgram(command)
  return program === undefined ? shown : `${shown} ${program}`
}

/**
 * The part of a command that can be the path of a program. Operators sometimes put arguments, assignments and addresses into the
 * command too: an ellipsis replaces these. Folder names in the path of a program may contain spaces.
 */
export function shownProgram(command: string): string {
  const [path = ''] = /^[^\s=?]*(?: +(?!-)[^\s=?:@/\\]*[/\\][^\s=?:@]*)*/.exec(command) ?? []
  if (path.includes('://')) return `${path.slice(0, path.indexOf('//'))}…`
  return path === command ? command : `${command.slice(0, path.length + 1)}…`
}

/**
 * The command as pins store it (rule 32): a different argument means a different upstream, but no argument can be read from the
 * pin. Origins stay readable, because a change of an origin is suspicious.
 */
export function pinnedCommand(
  command: string,
  args: readonly string[],
  digest: (text: string) => string,
): JsonObject {
  const program = programIn(command, args)
  const shown = shownProgram(command)
  const hidden = shown === command ? args : [command, ...args]
  const origins = hidden.flatMap(originsOf)
  return defined({
    transport: 'stdio',
    command: shown,
    program,
    origins: origins.length === 0 ? undefined : [...new Set(origins)],
    arguments: hidden.length === 0 ? '' : digest(JSON.stringify(['arguments of a program', ...hidden])),
  })
}

/** Scheme, host and port of each address in an argument, including an address after an option, as in `--url=https://…`. */
function originsOf(argument: string): readonly string[] {
  return [...argument.matchAll(/[a-z][a-z0-9+.-]*:\/\/[^\s"']+/gi)].flatMap(([address]) => {
    const url = URL.parse(address)
    return url === null || url.host === '' ? [] : [`${url.protocol}//${url.host}`]
  })
}

/** An address without user, password and query, to show to people who manage sources. */
export function shownAddress(address: string): string {
  const { origin, pathname } = new URL(address)
  return `${origin}${pathname === '/' ? '' : pathname}`
}

/** The part of an address that the journal records. The path is left out, because some services put a customer's key into it. */
export function hostOf(address: string): string {
  const { protocol, host } = new URL(address)
  return `${protocol}//${host}`
}

/** The host, file or program of a source, without possible secrets. */
export function targetOf(options: JsonObject): string | undefined {
  const { url, file, command, args } = options
  if (typeof url === 'string' && URL.canParse(url)) return hostOf(url)
  if (typeof file === 'string') return file
  if (typeof command !== 'string') return undefined
  return shownCommand(command, Array.isArray(args) ? args.map(String) : [])
}

/** Options that decide what the tools of a source may do and who may use them; none contains a credential. */
const RULES = ['tenants', 'policy', 'tools', 'include', 'exclude', 'trust', 'isolation'] as const
const MAX_CHANGES = 100

/** Each rule that the new options change, by its path; `null` for a removed rule. */
export function changedRules(before: JsonObject, after: JsonObject): JsonObject {
  const [old, now] = [rulesOf(before), rulesOf(after)]
  const names = [...new Set([...old.keys(), ...now.keys()])].filter(
    (name) => canonicalJson(old.get(name) ?? null) !== canonicalJson(now.get(name) ?? null),
  )
  return Object.fromEntries(names.slice(0, MAX_CHANGES).map((name) => [name, now.get(name) ?? null]))
}

function rulesOf(options: JsonObject): ReadonlyMap<string, JsonValue> {
  return new Map(RULES.flatMap((name) => leavesOf(name, options[name])))
}

function leavesOf(path: string, value: JsonValue | undefined): readonly (readonly [string, JsonValue])[] {
  if (value === undefined) return []
  if (!isJsonObject(value)) return [[path, value]]
  return Object.entries(value).flatMap(([name, inner]) => leavesOf(`${path}.${name}`, inner))
}
