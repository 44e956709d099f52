/** Numbers of the tools, prompts, templates and skills of a source. Its entries for resources and completions are not counted. */
export interface OfferCounts {
  readonly tools: number
  readonly prompts: number
  readonly templates: number
  readonly skills: number
}

export function countOffered(
  definitions: readonly { readonly entry?: { readonly kind: string } | undefined }[],
): OfferCounts {
  const count = (kind?: string): number => definitions.filter(({ entry }) => entry?.kind === kind).length
  return {
    tools: count(),
    prompts: count('prompt'),
    templates: count('template'),
    skills: count('skill'),
  }
}

/** For people: `37 tools, 4 prompts, 2 templates, 1 skill`. */
export function countsText({ tools, prompts, templates, skills }: OfferCounts): string {
  const text = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
  return [
    text(tools, 'tool'),
    ...(prompts === 0 ? [] : [text(prompts, 'prompt')]),
    ...(templates === 0 ? [] : [text(templates, 'template')]),
    ...(skills === 0 ? [] : [text(skills, 'skill')]),
  ].join(', ')
}
