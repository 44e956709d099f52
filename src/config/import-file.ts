import { fileURLToPath, pathToFileURL } from 'node:url'
import { ConfigError } from './config-error.ts'

/** Frames from here on are the loader's, not the user's. */
const OWN_FOLDER = new URL('.', import.meta.url).href

export type ImportModule = (url: string) => Promise<Readonly<Record<string, unknown>>>

/** Node's own import: `.ts` files load by type stripping. */
export const importModule: ImportModule = (url) => import(url)

/** The exports of a file of the user's; whatever goes wrong becomes one problem that names the file. */
export async function importFile(
  file: string,
  load: ImportModule = importModule,
): Promise<Readonly<Record<string, unknown>>> {
  try {
    return await load(pathToFileURL(file).href)
  } catch (error) {
    const where = firstOwnLine(error)
    throw new ConfigError(
      [
        {
          severity: 'error',
          file,
          ...(where === undefined ? {} : { where: `at ${where}` }),
          message: explain(error),
        },
      ],
      { cause: error },
    )
  }
}

/** What Node's codes mean for the author of the file. */
const EXPLAINED: Readonly<Record<string, string>> = {
  ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX:
    'Node runs TypeScript by removing types, so syntax that needs code (enum, namespace, parameter properties) cannot be used here; write plain objects and fields instead.',
  ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING:
    'Node does not run TypeScript inside node_modules; import a package that ships JavaScript.',
  ERR_MODULE_NOT_FOUND: 'Check the path, with its extension: Node imports "./x.ts", not "./x".',
  ERR_UNSUPPORTED_DIR_IMPORT: 'Name the file in that folder, with its extension.',
}

function explain(error: unknown): string {
  if (!(error instanceof Error))
    return `threw ${typeof error === 'string' ? error : 'something that is not an Error'} while loading.`
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const advice = EXPLAINED[code]
  const text = `${error.name}: ${error.message}`
  return advice === undefined ? `failed while loading: ${text}` : `${text}. ${advice}`
}

/** `path:line:column` of the topmost frame in the user's own files. */
function firstOwnLine(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.stack === undefined) return undefined
  const lines = error.stack.split('\n')
  // A syntax error has no frame of its own: V8 puts the place on the line before the excerpt.
  const marked = /^(file:\/\/\S+|\/\S.*):(\d+)$/.exec(lines[0] ?? '')
  if (marked !== null) return `${toPath(marked[1] ?? '')}:${marked[2]}`
  for (const line of lines) {
    const frame = /^\s+at .*?(file:\/\/\S+?|\/[^\s)]+?):(\d+):(\d+)\)?$/.exec(line)
    if (line.includes(OWN_FOLDER)) return undefined
    if (frame === null || line.includes('/node_modules/')) continue
    return `${toPath(frame[1] ?? '')}:${frame[2]}:${frame[3]}`
  }
  return undefined
}

function toPath(place: string): string {
  return place.startsWith('file://') ? fileURLToPath(place) : place
}
