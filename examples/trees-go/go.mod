module example.net/trees

go 1.24
