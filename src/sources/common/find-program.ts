import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, resolve } from 'node:path'

/** Where programs are looked for when nobody says. */
export const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The file behind a program: a path from the folder, or a name on the search path. */
export async function findProgram(
  program: string,
  place: { readonly folder: string; readonly path: string },
): Promise<string | undefined> {
  if (program.includes('/')) return await executable(resolve(place.folder, program))
  for (const folder of place.path.split(delimiter)) {
    // A relative entry would depend on who started the server where.
    const found = isAbsolute(folder) ? await executable(resolve(folder, program)) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

async function executable(file: string): Promise<string | undefined> {
  try {
    await access(file, constants.X_OK)
    return (await stat(file)).isFile() ? file : undefined
  } catch {
    return undefined
  }
}
