import { readFileSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { type Command, type CommandContext, defineCommand, EXIT } from '#cli/command'
import { VERSION } from '#server/version'

const init = defineCommand<never>({
  name: 'init',
  summary: 'Makes a project with one tool and its test.',
  details: [
    'Writes package.json, tsconfig.json, .gitignore, collet.config.ts, tools/count-words.ts and its test.',
    'A file that is there already stays as it is. Nothing is downloaded and nothing is asked.',
  ],
  positionals: [
    { name: 'FOLDER', optional: true, help: 'Where to; made when it is not there. Default: here.' },
  ],
  options: {},
  examples: ['collet init', 'collet init my-tools'],
  async run(args, context) {
    const folder = resolve(context.workingFolder, args.positionals[0] ?? '.')
    const isEmpty = await hasNothing(folder)
    const made: string[] = []
    const kept: string[] = []
    for (const [name, text] of Object.entries(filesFor(folder))) {
      const isNew = await writeNew(join(folder, name), text)
      if (isNew) made.push(name)
      else kept.push(name)
    }
    const next = nextCommands(folder, kept.includes(MANIFEST), context)
    if (context.json) {
      context.output.json({ folder, made, kept, next })
      return EXIT.ok
    }
    const { output } = context
    for (const name of made) output.data(`${output.style('green', '+')} ${name}`)
    for (const name of kept) output.note(`  ${name} is there already and stays as it is.`)
    if (!isEmpty && kept.includes('collet.config.ts')) {
      output.note('  To serve the new tool, name it in collet.config.ts: tools: ["tools/*.ts"]')
    }
    output.data('')
    output.data('Next:')
    const width = Math.max(...next.map(({ command }) => command.length))
    for (const { command, why } of next)
      output.data(`  ${command.padEnd(width)}  ${output.style('dim', why)}`)
    return EXIT.ok
  },
})

const MANIFEST = 'package.json'

async function hasNothing(folder: string): Promise<boolean> {
  const entries = await readdir(folder).catch(() => [])
  return entries.length === 0
}

/** `false` when there is such a file. */
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

interface NextCommand {
  readonly command: string
  readonly why: string
}

function nextCommands(
  folder: string,
  hasManifest: boolean,
  { workingFolder }: CommandContext,
): NextCommand[] {
  const way = relative(workingFolder, folder)
  const enter = way === '' ? '' : `cd ${quoted(way.startsWith('..') ? folder : way)} && `
  const packages = Object.entries(PACKAGES).map(([name, range]) => `${name}@${range}`)
  const install = hasManifest ? `npm install ${packages.join(' ')}` : 'npm install'
  return [
    { command: `${enter}${install}`, why: 'gets collet and zod' },
    { command: hasManifest ? 'node --test' : 'npm test', why: 'runs the test of the tool' },
    {
      command: hasManifest ? 'npx collet dev' : 'npm run dev',
      why: 'serves the tool, and again at each save',
    },
  ]
}

function quoted(path: string): string {
  return /\s/.test(path) ? `"${path}"` : path
}

const PACKAGES = { collet: `^${VERSION}`, zod: '^4.2.0' }

function filesFor(folder: string): Readonly<Record<string, string>> {
  return {
    [MANIFEST]: json({
      name: packageName(folder),
      private: true,
      type: 'module',
      engines: { node: '>=24' },
      scripts: {
        dev: 'collet dev',
        start: 'collet serve',
        test: 'node --test',
        types: 'tsc',
      },
      dependencies: PACKAGES,
      devDependencies: { '@types/node': '^24.0.0', typescript: '^7.0.0' },
    }),
    'tsconfig.json': json({
      compilerOptions: {
        ...{ target: 'esnext', module: 'nodenext', strict: true, noEmit: true, skipLibCheck: true },
        ...{ erasableSyntaxOnly: true, allowImportingTsExtensions: true, verbatimModuleSyntax: true },
      },
      include: ['*.ts', 'tools'],
    }),
    '.gitignore': 'node_modules/\n.collet/\n.env\n',
    ...Object.fromEntries(TEMPLATES.map((name) => [name, readTemplate(name)])),
  }
}

/** Files that are the same in every project: in the package as they are, so that they are checked as all code is. */
const TEMPLATES = ['collet.config.ts', 'tools/count-words.ts', 'tools/count-words.test.ts']

function readTemplate(name: string): string {
  return readFileSync(new URL(`../../../templates/${name}`, import.meta.url), 'utf8')
}

function json(value: object): string {
  return `${JSON.stringify(value, undefined, 2)}\n`
}

/** npm takes small letters, digits and a few signs. */
function packageName(folder: string): string {
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replace(/^[._-]+/, '')
  return name === '' || name === 'collet' ? 'my-tools' : name
}

export const COMMANDS: readonly Command[] = [init]
