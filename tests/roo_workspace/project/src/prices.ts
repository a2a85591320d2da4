export const VAT = 19
