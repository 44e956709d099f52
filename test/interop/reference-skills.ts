import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { SKILLS_EXTENSION_ID } from '@modelcontextprotocol/server/ext/skills'
import { loadSkills } from '@modelcontextprotocol/server/ext/skills/node'

/*
 * The skill that both reference servers and Collet's own tools have, in a folder of the conformance tests.
 */

const SKILLS_FOLDER = new URL('../conformance/skills/', import.meta.url)

export const REFERENCE_SKILLS = await loadSkills(fileURLToPath(SKILLS_FOLDER), { strict: true })

export const SKILLS_CAPABILITY = { [SKILLS_EXTENSION_ID]: {} }

export const SKILL_RESOURCES = REFERENCE_SKILLS.entries.map(
  ({ uri, frontmatter: { name, description } }) => ({
    ...{ uri, name, description },
    mimeType: 'text/markdown',
  }),
)

/** `undefined` for an address that is not that of a file of a skill. */
export function readSkillFile(uri: string) {
  const isListed = REFERENCE_SKILLS.entries.some(
    ({ resources }) => resources !== 'dynamic' && resources.some((file) => file.uri === uri),
  )
  if (!isListed) return undefined
  const text = readFileSync(new URL(uri.slice('skill://'.length), SKILLS_FOLDER), 'utf8')
  return { uri, mimeType: 'text/markdown', text }
}
