import type { Difference } from './compare-server.ts'

/** One public server: what it has and what differs, or why it was not compared. */
export type ServerRow = { readonly name: string; readonly version: string } & (
  | { readonly problem: string }
  | {
      /** Tools, prompts, resources and templates. */
      readonly counts: readonly [number, number, number, number]
      readonly results: number
      readonly differences: readonly Difference[]
    }
)

/** The lines of the page: a table of the servers, and every difference by its member. */
export function renderServers(rows: readonly ServerRow[]): readonly string[] {
  const compared = rows.flatMap((row) => ('problem' in row ? [] : [row]))
  const left = rows.flatMap((row) => ('problem' in row ? [row] : []))
  const sum = (index: 0 | 1 | 2 | 3) => compared.reduce((all, { counts }) => all + counts[index], 0)
  const same = compared.filter(({ differences }) => differences.length === 0).length
  return [
    `${compared.length} servers were compared: ${sum(0)} tools, ${sum(1)} prompts, ${sum(2)} resources, ${sum(3)} templates. ${same} servers show no difference.`,
    '',
    '| server | version | tools | prompts | resources | templates | results | differences |',
    '| --- | --- | --- | --- | --- | --- | --- | --- |',
    ...compared.map(
      ({ name, version, counts, results, differences }) =>
        `| \`${name}\` | ${version} | ${counts.join(' | ')} | ${results} | ${summary(differences)} |`,
    ),
    '',
    ...(left.length === 0
      ? []
      : [
          'Not compared, because they do not start without their service, a credential or a network:',
          `${left.map(({ name }) => `\`${name}\``).join(', ')}.`,
        ]),
  ]
}

function summary(differences: readonly Difference[]): string {
  if (differences.length === 0) return 'none'
  const byMember = Map.groupBy(differences, ({ member }) => member)
  return [...byMember].map(([member, { length }]) => `${length} × \`${member}\``).join(', ')
}
