/*
 * The texts of values and contents. Only this folder uses them.
 */

export const WORDS = {
  characters: (count: string) => `${count} characters`,
  searchPlaceholder: 'Search names and values',
  next: 'Next',
  search: 'Search',
  notFound: 'Not found',
  download: 'Download',
  content: 'Content',
  outputTool: 'Output of the tool',
  unknownType: 'unknown type',
  saveFile: 'Save file',
} as const
