/*
 * The texts of Markdown. Its modules use them, and nothing else does.
 */

export const WORDS = {
  showLess: 'Show less',
  showMore: 'Show more',
  note: 'Note',
  tip: 'Tip',
  important: 'Important',
  warning: 'Warning',
  caution: 'Caution',
} as const
