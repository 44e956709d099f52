import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type CommandContext, defineCommand, EXIT } from '#cli/command'
import { messageOf } from '#cli/output'
import { isCheckout } from '#cli/package-build'
import { isRecord } from '#kernel/base/json'
import { VERSION } from '#server/version'

/**
 * `collet init`: writes a project with a config, one tool and its test. The project depends on the copy of Collet
 * that runs the command. Invariant: an existing file is never overwritten, and nothing is downloaded.
 */

const init = defineCommand<never>({
  name: 'init',
  summary: 'Creates a project with one tool and its test.',
  details: [
    'Writes package.json, tsconfig.json, .gitignore, README.md, collet.config.ts, tools/count-words.ts and its test.',
    'The project depends on this copy of Collet: a checkout, the file that was installed, or the version on npm.',
    'In a checkout it first builds Collet if the build is missing or older than the sources, because the project imports it.',
    'An existing file is not changed. Nothing is downloaded, and no question is asked.',
  ],
  positionals: [
    {
      name: 'FOLDER',
      optional: true,
      help: 'The folder; created if it does not exist. Default: the current one.',
    },
  ],
  options: {},
  examples: ['collet init', 'collet init my-tools'],
  async run(args, context) {
    const folder = resolve(context.workingFolder, args.positionals[0] ?? '.')
    const made: string[] = []
    const kept: string[] = []
    const collet = packageSource(folder)
    for (const [name, text] of Object.entries(filesFor(folder, collet))) {
      const isNew = await writeNew(join(folder, name), text)
      ;(isNew ? made : kept).push(name)
    }
    const { output } = context
    const exit = (await buildCheckout(context)) ? EXIT.ok : EXIT.server
    const next = nextCommands(folder, { collet, hasManifest: kept.includes(MANIFEST) }, context)
    if (context.json) {
      output.json({ folder, made, kept, next })
      return exit
    }
    for (const name of made) output.data(`${output.style('green', '+')} ${name}`)
    for (const name of kept) output.note(`  ${name} exists already and is not changed.`)
    if (kept.includes('collet.config.ts'))
      output.note('  To serve the new tool, name it in collet.config.ts: tools: ["tools/*.ts"]')
    output.data('')
    output.data('Next:')
    const width = Math.max(...next.map(({ command }) => command.length))
    for (const { command, why } of next)
      output.data(`  ${command.padEnd(width)}  ${output.style('dim', why)}`)
    return exit
  },
})

/** Builds the checkout, because the project imports its build. Returns `false` if it cannot be built. */
async function buildCheckout({ output, services, clock }: CommandContext): Promise<boolean> {
  const build = isCheckout(ROOT) ? await services.packageBuild(ROOT) : undefined
  if (build === undefined) return true
  const startedMs = clock.monotonicMs()
  try {
    await output.during('Building Collet once', build())
  } catch (error) {
    output.error(`Collet cannot be built: ${messageOf(error)}`)
    output.note(`  The project needs the build. Run npm run build in ${ROOT}.`)
    return false
  }
  output.note(`Collet built in ${Math.ceil((clock.monotonicMs() - startedMs) / 1_000)} s.`)
  return true
}

const MANIFEST = 'package.json'

/** Writes a new file; returns `false` if the file exists. */
async function writeNew(file: string, text: string): Promise<boolean> {
  await mkdir(dirname(file), { recursive: true })
  try {
    await writeFile(file, text, { flag: 'wx' })
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

function nextCommands(
  folder: string,
  { collet, hasManifest }: { readonly collet: string; readonly hasManifest: boolean },
  { workingFolder }: CommandContext,
) {
  const path = relative(workingFolder, folder)
  const enter = path === '' ? '' : `cd ${quoted(path.startsWith('..') ? folder : path)} && `
  const packages = Object.entries(packagesOf(collet)).map(([name, range]) => `${name}@${range}`)
  const install = hasManifest ? `npm install ${packages.join(' ')}` : 'npm install'
  return [
    {
      command: `${enter}${install}`,
      why: hasManifest ? 'gets collet and zod' : 'gets collet, zod and Node 24',
    },
    { command: hasManifest ? 'node --test' : 'npm test', why: 'runs the test of the tool' },
    {
      command: hasManifest ? 'npx collet dev' : 'npm run dev',
      why: 'serves the tool, and restarts after each save',
    },
  ]
}

function quoted(path: string): string {
  return /\s/.test(path) ? `"${path}"` : path
}

/** The root folder of this package; the path is right both in the sources and in the build. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url)).replace(/[/\\]$/, '')
const OWN_NAME = 'collet'

function packagesOf(collet: string): Readonly<Record<string, string>> {
  return { [OWN_NAME]: collet, zod: '^4.2.0' }
}

/** The version range or `file:` path of the copy of Collet that runs this command, for `package.json`. */
function packageSource(folder: string): string {
  const file = isCheckout(ROOT) ? ROOT : installedFile()
  return file === undefined ? `^${VERSION}` : `file:${relative(folder, file).replaceAll('\\', '/')}`
}

/** The packed file that npm installed this package from; `undefined` if it came from a registry. */
function installedFile(): string | undefined {
  const modules = dirname(ROOT)
  const lock = join(modules, '.package-lock.json')
  if (!existsSync(lock)) return undefined
  const { packages }: { readonly packages?: unknown } = JSON.parse(readFileSync(lock, 'utf8'))
  const entry = isRecord(packages) ? packages[`node_modules/${OWN_NAME}`] : undefined
  const resolved = isRecord(entry) ? entry.resolved : undefined
  return typeof resolved === 'string' && resolved.startsWith('file:')
    ? resolve(dirname(modules), resolved.slice('file:'.length))
    : undefined
}

function filesFor(folder: string, collet: string): Readonly<Record<string, string>> {
  return {
    [MANIFEST]: json({
      name: packageName(folder),
      private: true,
      type: 'module',
      scripts: { dev: 'collet dev', start: 'collet serve', test: 'node --test', types: 'tsc' },
      dependencies: packagesOf(collet),
      // npm scripts then run on Node 24, whichever version the machine has.
      devDependencies: { '@types/node': '^24.0.0', node: '^24.0.0', typescript: '^7.0.0' },
      allowScripts: { node: true },
    }),
    'tsconfig.json': json({
      compilerOptions: {
        target: 'esnext',
        module: 'nodenext',
        types: ['node'],
        strict: true,
        noEmit: true,
        skipLibCheck: true,
        erasableSyntaxOnly: true,
        allowImportingTsExtensions: true,
        verbatimModuleSyntax: true,
      },
      include: ['*.ts', 'tools'],
    }),
    '.gitignore': 'node_modules/\n.collet/\n.env\n',
    ...Object.fromEntries(TEMPLATES.map((name) => [name, readTemplate(name)])),
  }
}

/** Files that are identical in every project. They are part of the package, so that they are checked like all code. */
const TEMPLATES = ['README.md', 'collet.config.ts', 'tools/count-words.ts', 'tools/count-words.test.ts']

function readTemplate(name: string): string {
  return readFileSync(new URL(`../../../templates/${name}`, import.meta.url), 'utf8')
}

function json(value: object): string {
  return `${JSON.stringify(value, undefined, 2)}\n`
}

/** Turns the folder's name into a package name: npm allows lower-case letters, digits, `.`, `_` and `-`. */
function packageName(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replace(/^[._-]+/, '')
  return name === '' || name === 'collet' ? 'my-tools' : name
}

export const COMMANDS = [init]
